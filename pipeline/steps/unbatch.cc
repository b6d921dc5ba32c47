#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/batching.h"

namespace shardfeed {

Dataset Dataset::Unbatch() const {
  if (!status_.ok()) return *this;
  if (!batched()) {
    return Dataset(absl::InvalidArgumentError("unbatch: the elements are already rows"));
  }
  for (const ColumnSpec& s : spec()) {
    if (std::count(s.shape.begin(), s.shape.end(), 0) > 0) {
      return Dataset(
          absl::InvalidArgumentError(fmt::format("unbatch: column '{}' is padded to another length "
                                                 "in each batch; pad it to a fixed length",
                                                 s.name)));
    }
  }
  Step step = Like("unbatch");
  step.batched = false;
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("the number of rows of the batches is unknown");
  };
  step.sharing = Sharing::kUneven;  // ranks may be within batches
  step.in_order = true;
  step.work = OnInput([](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    return MakeUnbatchStage(std::move(input));
  });
  return Then(std::move(step));
}

}  // namespace shardfeed
