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

// Work on a whole batch, which it may change or replace. May throw.
using BatchFn = std::function<absl::Status(Batch&)>;

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

// Each batch of the input is worked on in ranges of rows, cut such that one takes about a tenth of
// a millisecond; threads take ranges in the order of the batches, so that the one that is due is
// done first, and its rows are written straight to their place. There is no reordering: a batch is
// delivered when its last range is done, and a slow row holds up nothing but its own batch. Batches
// that take less than that are taken several at a time.
//
// `key` tells the step from others in `context`.
std::unique_ptr<Stage> MakeParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps,
                                         const void* key, std::shared_ptr<RunContext> context);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PARALLEL_STAGE_H_
