// The steps of a parallel stage, and the output that they make of rows.

#ifndef SHARDFEED_PIPELINE_STAGES_PARALLEL_STEPS_H_
#define SHARDFEED_PIPELINE_STAGES_PARALLEL_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/rows/row_program.h"
#include "pipeline/stages/run_context.h"

namespace shardfeed {

// For a BatchFn that fails on rows: tells which row of those that came in. What it made of the rows
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

// Rows on their way through the steps.
struct StepsJob {
  Batch input;
  Batch fixed;  // columns that the row steps write
  std::vector<std::unique_ptr<RangeMemory>>
      ranges;  // memory of the stretches that were taken, in order
  Batch output;
  absl::Status status;
  size_t failed_row = SIZE_MAX;  // the first, where `status` is a row step's
};

// What comes before the rows of a job are worked on, and behind that. No lock is needed: jobs are
// independent of one another, and nobody else has the job meanwhile.
class OutputMaker {
 public:
  // All three outlive it.
  OutputMaker(const ParallelSteps& steps, const RunContext& context, StageCounters& counters)
      : steps_(steps), context_(context), counters_(counters) {}

  // Memory for the fixed columns of the job's rows. If there is none, the first row is to blame.
  void Allocate(StepsJob& job) const;
  // Once all rows are done: puts the output together and runs the functions of whole batches. An
  // error is told with the record it is of; where rows are elements, those before it are the
  // output.
  void Finish(StepsJob& job) const;

 private:
  absl::Status At(const Batch& batch, size_t row, std::string_view before,
                  const absl::Status& status) const;
  void FinishRows(StepsJob& job) const;
  void RunBatchFns(StepsJob& job) const;

  const ParallelSteps& steps_;
  const RunContext& context_;
  StageCounters& counters_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PARALLEL_STEPS_H_
