#include "pipeline/plan/sharing.h"

#include <algorithm>

namespace shardfeed {
namespace {

// Whether the reader of shards repeats its epochs by itself, and what is before the step is taken
// by elements.
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
  if (step.inputs.empty()) return nullptr;
  switch (step.sharing) {
    case Sharing::kUneven:
      return &step;
    case Sharing::kTakesPart: {
      // All ranks pass through all of its input, unless that is already a rank's part.
      const std::vector<RankPart> parts = PartsOf(*step.inputs[0]);
      const bool whole = std::all_of(parts.begin(), parts.end(),
                                     [](const RankPart& part) { return part.world == 1; });
      return whole ? nullptr : &step;
    }
    case Sharing::kKeeps:
      break;
  }
  // Rows of an epoch that a stage repeats can be counted by ranks alone.
  if (step.as<RepeatWork>() && !step.batched && !RepeatedByReader(step)) return &step;
  return UnevenStep(*step.inputs[0]);
}

}  // namespace shardfeed
