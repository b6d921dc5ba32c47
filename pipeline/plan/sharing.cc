#include "pipeline/plan/sharing.h"

#include <algorithm>

namespace shardfeed {
namespace {

// Whether the reader of shards itself does the repeat, because only steps on rows come between
// them.
bool RepeatedByReader(const Step& repeat) {
  const Step* at = repeat.inputs[0].get();
  while (at->as<RowWork>() != nullptr) at = at->inputs[0].get();
  const ShardsWork* const shards = at->as<ShardsWork>();
  return shards != nullptr && shards->reader.epochs == 1;
}

}  // namespace

std::vector<RankPart> PartsOf(const Step& step) {
  std::vector<RankPart> parts;
  for (const StepPtr& input : step.inputs) {
    const std::vector<RankPart> more = PartsOf(*input);
    parts.insert(parts.end(), more.begin(), more.end());
  }
  if (const ShardsWork* shards = step.as<ShardsWork>()) {
    parts.push_back({shards->reader.rank, shards->reader.world});
  }
  if (step.sharing == Sharing::kTakesPart) parts.push_back({step.rank, step.world});
  return parts;
}

const Step* UnevenStep(const Step& step) {
  // A source that takes a rank's part does so in its own order for each number of ranks.
  if (step.inputs.empty()) return step.sharing == Sharing::kKeeps ? nullptr : &step;
  switch (step.sharing) {
    case Sharing::kUneven:
      return &step;
    case Sharing::kTakesPart: {
      // All ranks read all of the step's input, unless that is a rank's part already.
      const std::vector<RankPart> parts = PartsOf(*step.inputs[0]);
      const bool whole = std::all_of(parts.begin(), parts.end(),
                                     [](const RankPart& part) { return part.world == 1; });
      return whole ? nullptr : &step;
    }
    case Sharing::kKeeps:
      break;
  }
  // If a stage repeats an epoch, only ranks themselves can count its rows.
  if (step.as<RepeatWork>() && !step.batched && !RepeatedByReader(step)) return &step;
  return UnevenStep(*step.inputs[0]);
}

bool ReadsMixture(const Step& step) {
  if (step.inputs.size() == 1) return ReadsMixture(*step.inputs[0]);
  const ShardsWork* const shards = step.as<ShardsWork>();
  return shards != nullptr && shards->reader.order.mixture != nullptr;
}

const Step* UnmergeableStep(const Step& step) {
  const Step* parts = nullptr;   // the step that makes several rows of one
  const Step* repeat = nullptr;  // a repeat that the reader does, if no filter precedes it
  for (const Step* at = &step;; at = at->inputs[0].get()) {
    if (at->inputs.empty()) return at->as<ShardsWork>() != nullptr ? nullptr : at;
    if (at->inputs.size() > 1) return at;
    if (at->sharing == Sharing::kTakesPart && at->world > 1) return at;
    if (at->as<StageWork>() != nullptr && !at->in_order && !at->tells_held) return at;
    if (at->as<RepeatWork>() != nullptr) {
      if (at->batched || !RepeatedByReader(*at)) return at;
      repeat = at;
    }
    const RowWork* const rows = at->as<RowWork>();
    if (repeat != nullptr && rows != nullptr && rows->step->filters()) return repeat;
    // The origin of rows that other functions of batches make is unknown.
    const BatchFnWork* const work = at->as<BatchFnWork>();
    if (work != nullptr && work->changes_count && !at->makes_parts) return at;
    if (at->makes_parts && parts != nullptr) return parts;
    if (at->makes_parts) parts = at;
  }
}

}  // namespace shardfeed
