#include <optional>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

// Whether a function of batches, which works on rows in the same way wherever an epoch ends, is
// among the last steps, which may follow the repeat. The repeat comes nearer to the reader then;
// steps with a RowStep alone may also precede it.
bool MayFollowRepeat(const Step& step) {
  if (step.inputs.size() != 1 || step.batched || step.sharing != Sharing::kKeeps) return false;
  if (const RowWork* const row = step.as<RowWork>()) {
    return !row->step->filters() && MayFollowRepeat(*step.inputs[0]);
  }
  const BatchFnWork* const work = step.as<BatchFnWork>();
  return work != nullptr && !work->changes_count && !step.random && !step.counts;
}

}  // namespace

Dataset Dataset::Repeat(uint64_t epochs) const {
  if (!status_.ok()) return *this;
  const ShardsWork* const shards = step_->as<ShardsWork>();
  if (shards != nullptr && shards->reader.epochs == 1) {
    // The reader repeats, so that its threads continue from one epoch to the next.
    Step step = *step_;
    std::get<ShardsWork>(step.work).reader.epochs =
        epochs == 0 ? std::nullopt : std::optional(epochs);
    step.text += fmt::format(".repeat({})", epochs);
    return Dataset(std::make_shared<const Step>(std::move(step)));
  }
  if (MayFollowRepeat(*step_)) {
    Step step = *step_;
    step.inputs.clear();
    return Dataset(step_->inputs[0]).Repeat(epochs).Then(std::move(step));
  }
  Step step = Like("repeat");
  step.text = fmt::format("repeat({})", epochs);
  step.identity.Add("epochs", epochs);
  step.length = [epochs](const std::vector<Length>& inputs) {
    if (!inputs[0].known() || inputs[0].elements == 0) return inputs[0];
    return epochs == 0 ? Length::Endless() : Length::Of(inputs[0].elements * epochs);
  };
  step.work = RepeatWork{epochs};
  return Then(std::move(step));
}

}  // namespace shardfeed
