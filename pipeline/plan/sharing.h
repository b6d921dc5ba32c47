// Whose states a chain can go on from.

#ifndef SHARDFEED_PIPELINE_PLAN_SHARING_H_
#define SHARDFEED_PIPELINE_PLAN_SHARING_H_

#include <cstdint>
#include <vector>

#include "pipeline/plan/step.h"

namespace shardfeed {

// A rank's part of something.
struct RankPart {
  uint64_t rank = 0;
  uint64_t world = 1;

  bool operator==(const RankPart&) const = default;
};

// The parts that a chain takes, of shards and of other steps, from its sources on.
std::vector<RankPart> PartsOf(const Step& step);

// The step because of which the ranks of the chain advance unevenly, so that a state is good for
// the rank that saved it alone. Null: a state tells what all ranks have delivered together, and any
// number of ranks goes on from it.
const Step* UnevenStep(const Step& step);

// The step because of which such states of all ranks cannot be merged: the row that was delivered
// last does not tell what was delivered before. May be null.
const Step* UnmergeableStep(const Step& step);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_SHARING_H_
