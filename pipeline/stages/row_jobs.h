// The work of a parallel stage: batches of rows in their order, and the parts of them that threads
// take.

#ifndef SHARDFEED_PIPELINE_STAGES_ROW_JOBS_H_
#define SHARDFEED_PIPELINE_STAGES_ROW_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/rows/row_program.h"
#include "pipeline/stages/parallel_steps.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "pipeline/stages/stretch_size.h"

namespace shardfeed {

// A batch of the input, or a stretch of one, on its way through the steps.
struct RowJob : StepsJob {
  // Rows that are one element, or depend on one another, come to one output. Others are delivered
  // in the stretches in which they are taken, each of which becomes a job of its own.
  bool whole = false;
  size_t rows = 0;
  size_t taken = 0;           // rows that threads have taken
  size_t stretches_left = 0;  // stretches that threads have taken and not finished
  uint64_t bytes = 0;         // its share of the bytes ahead
  uint64_t made_bytes = 0;    // size of `output`
  StateWords after;           // the input's state after this job
  bool at_place = false;      // whether `after` is a place to resume from
  bool done = false;
  // The next job of the same task, and whether this is the task's last.
  RowJob* next = nullptr;
  bool ends_task = true;
};

// What a thread takes: a stretch of a job's rows, or all rows of `job` and of the jobs that follow
// it by `next`.
struct RowTask {
  RowJob* job;
  size_t number;  // index into job->ranges
  size_t begin;
  size_t end;
  uint64_t reserved;  // share of job->bytes that is set aside for what the rows make
};

// Jobs enter by Add in the order of the input, are worked on by way of TakeTask, and leave by
// TakeDone; in between, this decides what may be begun within the budget, and counts the bytes
// ahead of the consumer.
//
// Not thread-safe: the stage guards it with its mutex. The references must outlive it.
class RowJobs {
 public:
  RowJobs(const ParallelSteps& steps, RunContext& context, StageCounters& counters,
          const StretchSize& size)
      : steps_(steps), context_(context), counters_(counters), size_(size) {}
  ~RowJobs() { context_.ahead_bytes -= bytes_ahead_; }
  RowJobs(const RowJobs&) = delete;
  RowJobs& operator=(const RowJobs&) = delete;

  void Clear();
  bool empty() const { return jobs_.empty(); }
  size_t size() const { return jobs_.size(); }

  // The job to deliver next if it is finished, else null.
  const RowJob* FirstDone();
  // Removes the job that FirstDone returns. `*room`: whether more may be begun for it.
  std::unique_ptr<RowJob> TakeDone(bool* room);

  // Whether another task of the input may be added. What comes next for the consumer always may.
  bool MayAdd() const;
  // Adds the jobs of one task, in order.
  void Add(std::vector<std::unique_ptr<RowJob>> task);

  // Whether a thread may take a task now.
  bool MayTake() const;
  // Requires MayTake().
  RowTask TakeTask();
  // How many rows of `job` a thread would take next.
  size_t StretchRows(const RowJob& job) const;

  // A stretch is finished: its memory, the bytes that its rows made, and the error of one, if any.
  // Returns whether the job has no rows left, including those that other threads have taken.
  bool FinishStretch(const RowTask& task, std::unique_ptr<RangeMemory> memory, uint64_t bytes,
                     absl::Status status);
  // The first `num_jobs` jobs of the task have their output.
  void FinishJobs(const RowTask& task, size_t num_jobs);

  // Memory of a delivered job to use again, or null.
  std::unique_ptr<RangeMemory> TakeMemory();

 private:
  using Jobs = std::list<std::unique_ptr<RowJob>>;

  Jobs::iterator FindDone();
  bool MayGoAhead(size_t rows) const;
  void AddBytesAhead(int64_t bytes);
  void NoteLevel();

  const ParallelSteps& steps_;
  RunContext& context_;
  StageCounters& counters_;
  const StretchSize& size_;
  Jobs jobs_;                        // jobs in order
  std::deque<Jobs::iterator> open_;  // jobs with rows that no thread has taken, in order
  std::vector<std::unique_ptr<RangeMemory>> spares_;
  size_t num_done_ = 0;
  size_t tasks_ahead_ = 0;    // tasks whose last job is not delivered
  size_t rows_ahead_ = 0;     // rows of all jobs
  size_t rows_taken_ = 0;     // rows of these that threads have taken
  uint64_t bytes_ahead_ = 0;  // bytes of all jobs
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_ROW_JOBS_H_
