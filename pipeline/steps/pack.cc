#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/packing.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::Pack(std::string column, PackOptions options) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = LengthColumn("pack", spec(), column, batched());
  if (!number.ok()) return Dataset(number.status());
  const ColumnSpec& s = spec()[*number];
  if (!s.ragged || !s.shape.empty() || (s.dtype != DType::kInt64 && s.dtype != DType::kInt32)) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("pack: column '{}' must be ragged int64 or int32", column)));
  }
  if (s.dtype == DType::kInt32 && !std::in_range<int32_t>(options.pad)) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "pack: column '{}' of int32 cannot hold the padding value {}", column, options.pad)));
  }
  if (options.length < 1 || options.length > kMaxLength || options.open < 1 ||
      options.open > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("pack: the length {} and the number of open rows {} must lie between 1 and {}",
                    options.length, options.open, kMaxLength)));
  }
  Step step = Like("pack");
  step.text = fmt::format("pack({}, length={}, open={}, pad={}{})", column, options.length,
                          options.open, options.pad, options.truncate ? ", truncate" : "");
  step.identity.Add("column", column)
      .Add("length", options.length)
      .Add("open", options.open)
      .Add("pad", options.pad)
      .Add("truncate", options.truncate);
  step.spec = PackedSpec(s, options.length);
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("pack makes rows by the sequences' lengths");
  };
  step.sharing = Sharing::kUneven;
  step.tells_held = true;
  step.work = StageWork{[n = *number, spec = step.spec, options](
                            const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = inputs.factories[0](inputs.epoch);
    if (!stage.ok()) return stage;
    return MakePackStage(*std::move(stage), n, spec, options, inputs.context);
  }};
  return Then(std::move(step));
}

}  // namespace shardfeed
