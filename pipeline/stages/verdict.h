// What limits a run, by what its stages have counted.

#ifndef SHARDFEED_PIPELINE_STAGES_VERDICT_H_
#define SHARDFEED_PIPELINE_STAGES_VERDICT_H_

#include <memory>
#include <string>
#include <vector>

#include "pipeline/stages/run_context.h"

namespace shardfeed {

struct Verdict {
  // "the consumer", "reading", a stage's name, "the input of STAGE", or "nothing".
  std::string limit;
  // What shows it, and what would help.
  std::string text;
};

// `stages`: from the source to the consumer. `wait_seconds`: of the `seconds` so far, how long the
// consumer waited.
//
//   - The consumer, if it hardly waits.
//   - Else the last stage whose threads are busy.
//   - Else reading, if the readers themselves are waited for most of the time.
//   - Else, where a stage waits for its input most of the time, what is before it: a generator, or
//     a step that works on one thread.
//   - Else nothing for long.
Verdict FindLimit(double seconds, double wait_seconds,
                  const std::vector<std::shared_ptr<StageCounters>>& stages);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_VERDICT_H_
