// Determines which states a chain can resume from.

#ifndef SHARDFEED_PIPELINE_PLAN_SHARING_H_
#define SHARDFEED_PIPELINE_PLAN_SHARING_H_

#include <cstdint>
#include <vector>

#include "pipeline/plan/step.h"

namespace shardfeed {

// The part of one rank.
struct RankPart {
  uint64_t rank = 0;
  uint64_t world = 1;

  bool operator==(const RankPart&) const = default;
};

// The parts that a chain takes, of shards and of other steps, in order from its sources.
std::vector<RankPart> PartsOf(const Step& step);

// The step that makes the ranks of the chain advance unevenly, so that a state is valid only for
// the rank that saved it. Null if a state tells what all ranks have delivered together, so that any
// number of ranks can resume from it.
const Step* UnevenStep(const Step& step);

// The step that prevents merging such states of all ranks, because the last delivered row does not
// tell what was delivered before it. May be null.
const Step* UnmergeableStep(const Step& step);

// Whether the chain has one source, a mixture of shards that is read by a plan.
bool ReadsMixture(const Step& step);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_SHARING_H_
