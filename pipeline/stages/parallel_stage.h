// Runs steps on several threads, ahead of the consumer, and delivers the results in order.

#ifndef SHARDFEED_PIPELINE_STAGES_PARALLEL_STAGE_H_
#define SHARDFEED_PIPELINE_STAGES_PARALLEL_STAGE_H_

#include <memory>

#include "pipeline/stages/parallel_steps.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// Threads take stretches of rows in the order of the input, so that the next row needed is computed
// first: one row at first, and more if they are cheap in time (for a batch, about a tenth of a
// millisecond) and in memory. The rows of a batch are written directly to their place, and it is
// delivered when its last stretch is done; if rows are elements, each stretch is delivered
// separately. Nothing is reordered: a slow row delays only its own batch or stretch. Cheap batches
// are taken several at a time.
//
// The stage always works on what the consumer needs next, and on what is ahead of it within the
// budget, which includes what functions make while they make it. An error is delivered after the
// rows, or whole batches, that precede it. When the stage is destroyed or the run cancelled, each
// thread stops after its current row.
//
// `key` identifies the step in `context`.
std::unique_ptr<Stage> MakeParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps,
                                         const void* key, std::shared_ptr<RunContext> context);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PARALLEL_STAGE_H_
