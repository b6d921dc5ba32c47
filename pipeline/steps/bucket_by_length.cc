#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/batching.h"
#include "pipeline/steps/columns.h"
#include "pipeline/steps/hidden.h"

namespace shardfeed {

Dataset Dataset::BucketBy(size_t column, std::shared_ptr<const RowSpec> spec,
                          const std::string& name, std::vector<int64_t> boundaries,
                          std::vector<uint64_t> sizes, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) {
    return Dataset(
        absl::InvalidArgumentError("bucket_by_length: the boundaries must be in ascending order"));
  }
  if (sizes.size() != boundaries.size() + 1) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("bucket_by_length: {} boundaries need {} batch sizes, got {}",
                    boundaries.size(), boundaries.size() + 1, sizes.size())));
  }
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) {
    return Dataset(absl::InvalidArgumentError("bucket_by_length: a batch size is 0"));
  }
  Step step = Like("bucket_by_length");
  step.text = fmt::format("bucket_by_length({}{}[{}], [{}]{})", name, name.empty() ? "" : ", ",
                          fmt::join(boundaries, ", "), fmt::join(sizes, ", "),
                          drop_remainder ? ", drop_remainder" : "");
  step.identity.Add("column", name)
      .Add("boundaries", boundaries)
      .Add("sizes", sizes)
      .Add("drop_remainder", drop_remainder);
  step.batched = true;
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("bucket_by_length makes batches by the rows' lengths");
  };
  step.sharing = Sharing::kUneven;
  step.tells_held = true;
  step.work = OnInput([=, rows = step_->spec](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    std::unique_ptr<Stage> buckets =
        MakeBucketStage(std::move(input), rows, column, boundaries, sizes, drop_remainder);
    if (rows->size() == spec->size()) return buckets;
    return MakeDropLastColumnStage(std::move(buckets), spec);
  });
  step.spec = std::move(spec);
  return Then(std::move(step));
}

Dataset Dataset::BucketByLength(std::string column, std::vector<int64_t> boundaries,
                                std::vector<uint64_t> sizes, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = RowLengthColumn("bucket_by_length", spec(), column, batched());
  if (!number.ok()) return Dataset(number.status());
  return BucketBy(*number, step_->spec, column, std::move(boundaries), std::move(sizes),
                  drop_remainder);
}

Dataset Dataset::BucketByLength(NumberFn length, std::vector<int64_t> boundaries,
                                std::vector<uint64_t> sizes, bool drop_remainder,
                                std::string version) const {
  if (!status_.ok()) return *this;
  MapFn lengths = [length = std::move(length)](RowContext& row) -> absl::Status {
    const absl::StatusOr<int64_t> made = length(row);
    if (!made.ok()) return made.status();
    if (*made < 0) {
      return absl::InvalidArgumentError(
          fmt::format("bucket_by_length: the function returned a length of {}", *made));
    }
    row.Out<int64_t>(0)[0] = *made;
    return absl::OkStatus();
  };
  return WithHidden("bucket_by_length", DType::kInt64, std::move(lengths), std::move(version))
      .BucketBy(spec().size(), step_->spec, "", std::move(boundaries), std::move(sizes),
                drop_remainder);
}

}  // namespace shardfeed
