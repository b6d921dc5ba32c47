#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/batching.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::BucketByLength(std::string column, std::vector<int64_t> boundaries,
                                std::vector<uint64_t> sizes, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = LengthColumn("bucket_by_length", spec(), column, batched());
  if (!number.ok()) return Dataset(number.status());
  if (sizes.size() != boundaries.size() + 1 ||
      !std::is_sorted(boundaries.begin(), boundaries.end())) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "bucket_by_length: {} boundaries in rising order take {} batch sizes; there are {}",
        boundaries.size(), boundaries.size() + 1, sizes.size())));
  }
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) {
    return Dataset(absl::InvalidArgumentError("bucket_by_length: a batch size is 0"));
  }
  Step step = Like("bucket_by_length");
  step.text = fmt::format("bucket_by_length({}, [{}], [{}]{})", column, fmt::join(boundaries, ", "),
                          fmt::join(sizes, ", "), drop_remainder ? ", drop_remainder" : "");
  step.identity.Add("column", column)
      .Add("boundaries", boundaries)
      .Add("sizes", sizes)
      .Add("drop_remainder", drop_remainder);
  step.batched = true;
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("bucket_by_length makes batches by the rows' lengths");
  };
  step.sharing = Sharing::kUneven;
  step.work =
      OnInput([=, spec = step.spec, n = *number](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
        return MakeBucketStage(std::move(input), spec, n, boundaries, sizes, drop_remainder);
      });
  return Then(std::move(step));
}

}  // namespace shardfeed
