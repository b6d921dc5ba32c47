// Steps on several threads, batches ahead of the consumer, delivered in order.

#ifndef SHARDFEED_PIPELINE_STAGES_PARALLEL_STAGE_H_
#define SHARDFEED_PIPELINE_STAGES_PARALLEL_STAGE_H_

#include <memory>

#include "pipeline/stages/parallel_steps.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"

namespace shardfeed {

// Threads take stretches of rows in the order of the input, so that what is due is done first: one
// row at first, and more while they are cheap, in time (for a batch, about a tenth of a
// millisecond) and in what they make. Rows of a batch are written straight to their place, and it
// is delivered when its last stretch is done; rows that are elements are delivered in these
// stretches. There is no reordering: a slow row holds up nothing but its own batch or stretch.
// Batches that take little are taken several at a time.
//
// What comes next for the consumer is always worked on; what is ahead of it only as far as the
// budget allows, in which what functions make counts as they make it. An error comes behind the
// rows, or the whole batches, before it. When the stage is left or the run is cancelled, each
// thread ends behind the row that it works on.
//
// `key` tells the step from others in `context`.
std::unique_ptr<Stage> MakeParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps,
                                         const void* key, std::shared_ptr<RunContext> context);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PARALLEL_STAGE_H_
