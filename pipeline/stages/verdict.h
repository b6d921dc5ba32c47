// Determines the bottleneck of a run from the statistics of its stages.

#ifndef SHARDFEED_PIPELINE_STAGES_VERDICT_H_
#define SHARDFEED_PIPELINE_STAGES_VERDICT_H_

#include <string>
#include <vector>

#include "shardfeed/iterator.h"

namespace shardfeed {

struct Verdict {
  // "the consumer", "reading", the name of a stage, "the input of STAGE", or "nothing".
  std::string limit;
  // The evidence, and what would help.
  std::string text;
};

// `stages`: in order from the source to the consumer. `wait_seconds`: how long the consumer has
// waited during `seconds`.
//
//   - The consumer, if it hardly waits.
//   - Otherwise the last stage whose threads are busy.
//   - Otherwise reading, if stages wait for the readers most of the time.
//   - Otherwise, if a stage waits for its input most of the time, whatever is before it: a
// generator, or a step that works on one thread.
//   - Otherwise nothing in particular.
Verdict FindLimit(double seconds, double wait_seconds, const std::vector<StageStats>& stages);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_VERDICT_H_
