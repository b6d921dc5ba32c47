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

// For a BatchFn that fails on rows: reports which input row failed. What it made of the preceding
// rows stays in the batch and is delivered.
void SetFailedRow(size_t row, absl::Status* status);

struct ParallelSteps {
  std::string name;
  // Row steps, followed by work on the whole batch; either may be missing.
  std::shared_ptr<const RowProgram> rows;
  std::vector<BatchFn> batches;
  // Whether one element is delivered for each input element, and whether at most one is.
  bool one_to_one = true;
  bool at_most_one = true;
  // Minimum number of finished batches to hold for the consumer.
  size_t prefetch = 2;
  // Whether the next input may depend on what the consumer does with earlier elements.
  bool input_may_await = false;
};

// Rows while the steps work on them.
struct StepsJob {
  Batch input;
  Batch fixed;  // columns that the row steps write
  std::vector<std::unique_ptr<RangeMemory>>
      ranges;  // memory of the stretches that were taken, in order
  Batch output;
  absl::Status status;
  size_t failed_row = SIZE_MAX;  // the first, where `status` is a row step's
};

// The work before and after that on the rows of a job. It needs no lock: jobs are independent of
// one another, and no other thread has the job meanwhile.
class OutputMaker {
 public:
  // All three must outlive it.
  OutputMaker(const ParallelSteps& steps, RunContext& context, StageCounters& counters)
      : steps_(steps), context_(context), counters_(counters) {}

  // Allocates memory for the fixed columns of the job's rows. If there is none, the first row
  // fails.
  void Allocate(StepsJob& job) const;
  // When all rows are done: assembles the output and runs the functions of whole batches. Errors
  // name the record; if rows are elements, the rows before the failed one are the output.
  void Finish(StepsJob& job) const;

 private:
  absl::Status At(const Batch& batch, size_t row, std::string_view before,
                  const absl::Status& status) const;
  void FinishRows(StepsJob& job) const;
  void RunBatchFns(StepsJob& job) const;

  const ParallelSteps& steps_;
  RunContext& context_;
  StageCounters& counters_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PARALLEL_STEPS_H_
