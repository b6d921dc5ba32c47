// Steps on several threads, batches ahead of the consumer, delivered in order.

#ifndef SHARDFEED_PIPELINE_PARALLEL_STAGE_H_
#define SHARDFEED_PIPELINE_PARALLEL_STAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/row_program.h"
#include "pipeline/run_context.h"
#include "pipeline/stage.h"

namespace shardfeed {

// Work on a whole batch, which it may change or replace; or on some rows, where rows are the
// elements. May throw.
using BatchFn = std::function<absl::Status(Batch&)>;
// For one that fails on rows: tells which row of those that came in. What it made of the rows
// before is left in the batch, and delivered.
void SetFailedRow(size_t row, absl::Status* status);

struct ParallelSteps {
  std::string name;
  // Row steps, then work on the whole batch; either may be missing.
  std::shared_ptr<const RowProgram> rows;
  std::vector<BatchFn> batches;
  // An element comes out for each that goes in.
  bool one_to_one = true;
  // Finished batches to hold for the consumer, at the least.
  size_t prefetch = 2;
  // What the input gives next may depend on what the consumer does with what it has.
  bool input_may_await = false;
};

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

#endif  // SHARDFEED_PIPELINE_PARALLEL_STAGE_H_
