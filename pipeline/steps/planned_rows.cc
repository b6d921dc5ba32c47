#include "pipeline/steps/planned_rows.h"

#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/sources.h"

namespace shardfeed {

StageWork OnPlannedRows(std::string name,
                        std::function<std::unique_ptr<Stage>(std::unique_ptr<Stage> stage,
                                                             std::shared_ptr<const PackPlan> plan,
                                                             const StageInputs& inputs)>
                            make) {
  return {[name = std::move(name), make = std::move(make)](
              const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    if (!inputs.context->deterministic) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: planned rows come in their order: run without deterministic=False", name));
    }
    absl::StatusOr<std::unique_ptr<Stage>> stage = inputs.factories[0](inputs.epoch);
    if (!stage.ok()) return stage;
    const Step* shards = inputs.step;
    while (!shards->inputs.empty()) shards = shards->inputs[0].get();
    const std::shared_ptr<KeptPack> kept = inputs.context->Kept<KeptPack>(shards);
    std::shared_ptr<const PackPlan> plan;
    {
      MutexLock lock(kept->mutex);
      plan = kept->plan;
    }
    return make(*std::move(stage), std::move(plan), inputs);
  }};
}

Dataset Dataset::WithPlannedRows(std::string_view name, const PackSpec& pack) const {
  Step step = *step_;
  if (const ShardsWork* shards = step_->as<ShardsWork>()) {
    if (shards->reader.end != EpochEnd::kDrop) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("{}: planned rows end with the last whole round of batches: read "
                      "with end=\"drop\"",
                      name)));
    }
    std::get<ShardsWork>(step.work).reader.pack = pack;
    return Dataset(std::make_shared<const Step>(std::move(step)));
  }
  const RowWork* const rows = step_->as<RowWork>();
  const bool keeps = (rows != nullptr && !rows->step->filters()) ||
                     (step_->as<RepeatWork>() != nullptr && !batched()) ||
                     (step_->name == "select" && !batched());
  if (!keeps || step_->inputs.size() != 1) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("{}: rows are planned by the lengths of records, so only read, shuffle, "
                    "interleave, shard, repeat and steps that keep each row may precede, which {} "
                    "is not",
                    name, step_->text)));
  }
  const bool cuts = pack.how == PackSpec::How::kConcatenate || pack.how == PackSpec::How::kSteps ||
                    (KeepsSequences(pack.how) && pack.longer == PackSpec::Longer::kSplit);
  if (cuts && step_->random) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("{}: {} takes random numbers or an index by a record's place, of which it has "
                    "several if its sequence is cut: put the step after it, or leave out what cuts",
                    name, step_->text)));
  }
  Dataset input = Dataset(step_->inputs[0]).WithPlannedRows(name, pack);
  if (!input.status_.ok()) return input;
  step.inputs = {input.step_};
  return input.Then(std::move(step));
}

}  // namespace shardfeed
