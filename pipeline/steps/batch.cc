#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {

Dataset Dataset::Batch(uint64_t size, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  if (size == 0 || size > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("batch: the size must lie between 1 and {}, got {}", kMaxRows, size)));
  }
  if (batched()) {
    return Dataset(
        absl::InvalidArgumentError("batch: the elements are already batches: unbatch first"));
  }
  Step step = Like("batch");
  step.text = fmt::format("batch({}{})", size, drop_remainder ? ", drop_remainder" : "");
  step.identity.Add("size", size).Add("drop_remainder", drop_remainder);
  step.batched = true;
  step.length = [size, drop_remainder](const std::vector<Length>& inputs) {
    if (!inputs[0].known()) return inputs[0];
    const uint64_t rows = inputs[0].elements;
    return Length::Of(rows / size + (!drop_remainder && rows % size > 0));
  };
  step.work = BatchWork{size, drop_remainder};
  return Then(std::move(step));
}

}  // namespace shardfeed
