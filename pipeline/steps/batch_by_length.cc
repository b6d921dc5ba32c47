#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/batching.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::BatchByLength(std::string column, int64_t budget) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = LengthColumn("batch_by_length", spec(), column, batched());
  if (!number.ok()) return Dataset(number.status());
  if (budget < 1) {
    return Dataset(absl::InvalidArgumentError("batch_by_length: the budget must be at least 1"));
  }
  Step step = Like("batch_by_length");
  step.text = fmt::format("batch_by_length({}, {})", column, budget);
  step.identity.Add("column", column).Add("budget", budget);
  step.batched = true;
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("batch_by_length makes batches by the rows' lengths");
  };
  step.sharing = Sharing::kUneven;
  step.in_order = true;
  step.work = OnInput(
      [spec = step.spec, n = *number, budget](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
        return MakeBudgetBatchStage(std::move(input), spec, n, budget);
      });
  return Then(std::move(step));
}

}  // namespace shardfeed
