#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/packing.h"
#include "pipeline/steps/columns.h"
#include "pipeline/steps/planned_rows.h"

namespace shardfeed {
namespace {

std::string TextOf(const std::vector<std::string>& columns, const PackOptions& options) {
  std::string text = fmt::format("pack({}, length={}", fmt::join(columns, ", "), options.length);
  if (options.lengths.empty()) {
    text += fmt::format(", open={}", options.open);
  } else {
    text += fmt::format(", lengths={}", options.lengths);
  }
  return fmt::format("{}, pad={}{}{})", text, fmt::join(options.pad, ", "),
                     options.truncate ? ", truncate" : "", options.split ? ", split" : "");
}

// The layout of the packed rows of a chain with the columns `spec`.
absl::StatusOr<PackLayout> LayoutOf(const RowSpec& spec, bool batched,
                                    const std::vector<std::string>& columns,
                                    const PackOptions& options) {
  PackLayout layout;
  layout.length = options.length;
  layout.cu_seqlens = options.cu_seqlens;
  const auto check_count = [&](const char* what, size_t count) {
    if (count == 1 || count == columns.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("pack: got {} {} for {} column{}: give one for all, or one for each", count,
                    what, columns.size(), columns.size() == 1 ? "" : "s"));
  };
  absl::Status status = check_count("padding values", options.pad.size());
  if (status.ok() && !options.separator.empty()) {
    status = check_count("separators", options.separator.size());
  }
  if (!status.ok()) return status;
  RowSpec packed;
  for (size_t i = 0; i < columns.size(); ++i) {
    absl::StatusOr<size_t> number = RowLengthColumn("pack", spec, columns[i], batched);
    if (!number.ok()) return number.status();
    const ColumnSpec& column = spec[*number];
    if (!column.ragged || !column.shape.empty() || column.dtype == DType::kBytes) {
      return absl::InvalidArgumentError(
          fmt::format("pack: column '{}' must have any number of single numbers per row, but it is "
                      "{}",
                      columns[i], RowSpecText({column})));
    }
    const Padding padding{0, options.pad[options.pad.size() == 1 ? 0 : i]};
    absl::StatusOr<PaddingValue> pad = PaddingValueOf("pack", column, padding);
    if (!pad.ok()) return pad.status();
    layout.columns.push_back(*number);
    layout.pad.push_back(*pad);
    if (!options.separator.empty()) {
      const Padding value{0, options.separator[options.separator.size() == 1 ? 0 : i]};
      absl::StatusOr<PaddingValue> separator = PaddingValueOf("pack", column, value, "separator");
      if (!separator.ok()) return separator.status();
      layout.separator.push_back(*separator);
    }
    packed.push_back({column.name, column.dtype, {options.length}, false});
  }
  packed.push_back({columns[0] + "_segment_ids", DType::kInt32, {options.length}, false});
  packed.push_back({columns[0] + "_positions", DType::kInt32, {options.length}, false});
  for (const std::string& name : options.keep) {
    absl::StatusOr<size_t> number = RowColumn("pack", spec, name, batched);
    if (!number.ok()) return number.status();
    const ColumnSpec& column = spec[*number];
    if (column.ragged) {
      return absl::InvalidArgumentError(fmt::format(
          "pack: column '{}' cannot be kept for each segment, because its rows have any "
          "number of values",
          name));
    }
    layout.kept.push_back(*number);
    packed.push_back({column.name, column.dtype, column.shape, true});
  }
  if (options.cu_seqlens) {
    packed.push_back({columns[0] + "_cu_seqlens", DType::kInt32, {}, true});
  }
  if (status = CheckNames("pack", packed); !status.ok()) return status;
  layout.spec = std::make_shared<const RowSpec>(std::move(packed));
  return layout;
}

}  // namespace

Dataset Dataset::Pack(std::vector<std::string> columns, PackOptions options) const {
  if (!status_.ok()) return *this;
  if (columns.empty()) {
    return Dataset(absl::InvalidArgumentError("pack: there are no columns"));
  }
  if (options.length < 1 || options.length > kMaxLength || options.open < 1 ||
      options.open > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("pack: the length {} and the number of open rows {} must lie between 1 and {}",
                    options.length, options.open, kMaxLength)));
  }
  absl::StatusOr<PackLayout> layout = LayoutOf(spec(), batched(), columns, options);
  if (!layout.ok()) return Dataset(layout.status());
  const bool planned = !options.lengths.empty();
  if (!planned && (options.split || options.how != PackSpec::How::kBestFit || options.window > 0 ||
                   options.min_length > 0 || options.max_length < UINT64_MAX ||
                   options.cost != PackSpec::Cost::kLinear)) {
    return Dataset(absl::InvalidArgumentError(
        "pack: split, how, window, min_length, max_length and cost are for planned rows: "
        "name the lengths"));
  }
  if (options.split && options.truncate) {
    return Dataset(absl::InvalidArgumentError(
        "pack: a sequence longer than a row is truncated or split, not both"));
  }
  Step step = Like("pack");
  step.text = TextOf(columns, options);
  step.identity.Add("column", columns[0])
      .Add("length", options.length)
      .Add("open", planned ? 0 : options.open)
      .Add("pad", options.pad[0])
      .Add("truncate", options.truncate)
      .AddIf(columns.size() > 1, "columns", columns)
      .AddIf(options.pad.size() > 1, "pads", options.pad)
      .AddIf(!options.separator.empty(), "separator", options.separator)
      .AddIf(!options.keep.empty(), "keep", options.keep)
      .AddIf(options.cu_seqlens, "cu_seqlens", true);
  step.spec = layout->spec;
  if (!planned) {
    step.length = [](const std::vector<Length>&) {
      return Length::Unknown("pack makes rows by the sequences' lengths");
    };
    step.sharing = Sharing::kUneven;
    step.tells_held = true;
    step.work = StageWork{[layout = *layout, options](
                              const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
      absl::StatusOr<std::unique_ptr<Stage>> stage = inputs.factories[0](inputs.epoch);
      if (!stage.ok()) return stage;
      return MakePackStage(*std::move(stage), layout, options.open, options.truncate,
                           inputs.context);
    }};
    return Then(std::move(step));
  }
  const PackSpec pack = {.lengths = options.lengths,
                         .length = static_cast<uint64_t>(options.length),
                         .how = options.how,
                         .longer = options.truncate ? PackSpec::Longer::kTruncate
                                   : options.split  ? PackSpec::Longer::kSplit
                                                    : PackSpec::Longer::kRefuse,
                         .window = options.window,
                         .min_length = options.min_length,
                         .max_length = options.max_length,
                         .separated = !options.separator.empty(),
                         .cost = options.cost};
  Dataset input = WithPlannedRows("pack", pack);
  if (!input.status_.ok()) return input;
  // The length is that of the shards, which count rows.
  step.work = OnPlannedRows(
      "pack", [layout = *layout](std::unique_ptr<Stage> stage, std::shared_ptr<const PackPlan> plan,
                                 const StageInputs& inputs) {
        return MakePlannedPackStage(std::move(stage), layout, std::move(plan), inputs.context);
      });
  return input.Then(std::move(step));
}

}  // namespace shardfeed
