#include <optional>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

// Whether a step works on rows in the same way wherever an epoch ends, so that it may follow the
// repeat, which comes nearer to the reader. Steps with a RowStep may precede it.
bool MayFollowRepeat(const Step& step) {
  const BatchFnWork* const work = step.as<BatchFnWork>();
  return work != nullptr && !work->changes_count && !step.batched && !step.random && !step.counts &&
         step.sharing == Sharing::kKeeps && step.inputs.size() == 1;
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
