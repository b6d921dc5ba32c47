#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/batching.h"
#include "pipeline/stages/packing.h"
#include "pipeline/steps/columns.h"
#include "pipeline/steps/planned_rows.h"

namespace shardfeed {

Dataset Dataset::BatchByLength(std::string column, int64_t budget,
                               BatchByLengthOptions options) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = RowLengthColumn("batch_by_length", spec(), column, batched());
  if (!number.ok()) return Dataset(number.status());
  if (budget < 1) {
    return Dataset(absl::InvalidArgumentError("batch_by_length: the budget must be at least 1"));
  }
  if (options.lengths.empty() &&
      (options.window > 0 || options.min_length > 0 || options.max_length < UINT64_MAX)) {
    return Dataset(absl::InvalidArgumentError(
        "batch_by_length: window, min_length and max_length are for batches that are planned: name "
        "the lengths"));
  }
  Step step = Like("batch_by_length");
  step.text = fmt::format("batch_by_length({}, {})", column, budget);
  step.identity.Add("column", column).Add("budget", budget);
  step.batched = true;
  if (!options.lengths.empty()) {
    Dataset input = WithPlannedRows("batch_by_length", {.lengths = std::move(options.lengths),
                                                        .length = static_cast<uint64_t>(budget),
                                                        .how = PackSpec::How::kBatch,
                                                        .window = options.window,
                                                        .min_length = options.min_length,
                                                        .max_length = options.max_length});
    if (!input.status_.ok()) return input;
    // The length is that of the shards, which count rows.
    step.work = OnPlannedRows(
        step.name, [spec = step.spec, n = *number](std::unique_ptr<Stage> stage,
                                                   std::shared_ptr<const PackPlan> plan,
                                                   const StageInputs& inputs) {
          return MakePlannedBatchStage(std::move(stage), spec, n, std::move(plan), inputs.context);
        });
    return input.Then(std::move(step));
  }
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
