#include "pipeline/stages/row_jobs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"

namespace shardfeed {
namespace {

// The target size of what a stretch of rows makes, as a fraction of the budget for each thread.
constexpr uint64_t kBudgetShare = 8;
// Keeps threads busy when one row takes many times longer than the others.
constexpr size_t kRowsAheadPerThread = 64;
constexpr size_t kMaxBatchesAhead = 256;
constexpr size_t kSparesPerThread = 4;

}  // namespace

void RowJobs::Clear() {
  jobs_.clear();
  open_.clear();
  num_done_ = tasks_ahead_ = rows_ahead_ = rows_taken_ = 0;
  AddBytesAhead(-static_cast<int64_t>(bytes_ahead_));
}

RowJobs::Jobs::iterator RowJobs::FindDone() {
  if (context_.deterministic) {
    return !jobs_.empty() && jobs_.front()->done ? jobs_.begin() : jobs_.end();
  }
  if (num_done_ == 0) return jobs_.end();
  return std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->done; });
}

const RowJob* RowJobs::FirstDone() {
  const auto at = FindDone();
  return at == jobs_.end() ? nullptr : at->get();
}

std::unique_ptr<RowJob> RowJobs::TakeDone(bool* room) {
  const Jobs::iterator at = FindDone();
  std::unique_ptr<RowJob> job = std::move(*at);
  jobs_.erase(at);
  --num_done_;
  if (job->ends_task) --tasks_ahead_;
  rows_ahead_ -= job->rows;
  rows_taken_ -= job->rows;
  AddBytesAhead(-static_cast<int64_t>(job->bytes));
  counters_.ready = num_done_;
  NoteLevel();
  for (std::unique_ptr<RangeMemory>& memory : job->ranges) {
    if (memory != nullptr && spares_.size() < kSparesPerThread * counters_.threads) {
      spares_.push_back(std::move(memory));
    }
  }
  *room = job->ends_task || jobs_.size() < 2;
  return job;
}

// Whether what is ahead of the consumer is within the budget and the limits on rows.
bool RowJobs::MayGoAhead(size_t rows) const {
  if (context_.ahead_bytes >= context_.budget_bytes) return false;
  return tasks_ahead_ < counters_.read_ahead ||
         (!steps_.input_may_await && rows < kRowsAheadPerThread * counters_.workers);
}

bool RowJobs::MayAdd() const {
  if (jobs_.empty()) return true;
  return jobs_.size() < kMaxBatchesAhead && MayGoAhead(rows_ahead_);
}

void RowJobs::Add(std::vector<std::unique_ptr<RowJob>> task) {
  ++tasks_ahead_;
  for (std::unique_ptr<RowJob>& job : task) {
    rows_ahead_ += job->rows;
    AddBytesAhead(static_cast<int64_t>(job->bytes));
    const bool first = job == task.front();
    jobs_.push_back(std::move(job));
    if (first) open_.push_back(std::prev(jobs_.end()));
  }
  NoteLevel();
}

bool RowJobs::MayTake() const {
  if (open_.empty()) return false;
  const RowJob& job = *open_.front()->get();
  if (&job == jobs_.front().get()) return true;
  if (job.whole || job.next != nullptr) return context_.ahead_bytes < context_.budget_bytes;
  return MayGoAhead(rows_taken_);
}

size_t RowJobs::StretchRows(const RowJob& job) const {
  const size_t left = job.rows - job.taken;
  if (job.whole && steps_.rows == nullptr) return left;
  return size_.Rows(left, job.whole, context_.budget_bytes / kBudgetShare / context_.threads);
}

RowTask RowJobs::TakeTask() {
  const Jobs::iterator at = open_.front();
  RowJob* job = at->get();
  if (job->next != nullptr) {
    open_.pop_front();
    for (RowJob* j = job; j != nullptr; j = j->next) {
      j->taken = j->rows;
      j->stretches_left = 1;
      j->ranges.resize(1);
      rows_taken_ += j->rows;
    }
    return {job, 0, 0, job->rows, 0};
  }
  const size_t n = StretchRows(*job);
  RowTask task = {job, 0, job->taken, job->taken + n, n * size_.row_bytes()};
  if (job->whole || n == job->rows) {
    if (n == job->rows - job->taken) open_.pop_front();
  } else {
    // The rows become a job of their own, before the rest of the job that they belonged to.
    auto part = std::make_unique<RowJob>();
    part->input = job->input.Slice(job->taken, n);
    part->rows = n;
    part->bytes = job->bytes * n / (job->rows - job->taken);
    job->bytes -= part->bytes;
    task = {part.get(), 0, 0, n, task.reserved};
    job->taken += n;
    ++tasks_ahead_;
    if (job->taken == job->rows) {
      part->after = std::move(job->after);
      part->at_place = job->at_place;
      *at = std::move(part);
      --tasks_ahead_;
      open_.pop_front();
    } else {
      jobs_.insert(at, std::move(part));
    }
    job = task.job;
  }
  job->taken = task.end;
  ++job->stretches_left;
  task.number = job->ranges.size();
  job->ranges.emplace_back();
  job->bytes += task.reserved;
  AddBytesAhead(static_cast<int64_t>(task.reserved));
  rows_taken_ += n;
  return task;
}

bool RowJobs::FinishStretch(const RowTask& task, std::unique_ptr<RangeMemory> memory,
                            uint64_t bytes, absl::Status status) {
  RowJob& job = *task.job;
  if (bytes != task.reserved) {
    job.bytes += bytes - task.reserved;
    AddBytesAhead(static_cast<int64_t>(bytes) - static_cast<int64_t>(task.reserved));
  }
  if (!status.ok() && memory->range.failed_row < job.failed_row) {
    job.failed_row = memory->range.failed_row;
    job.status = std::move(status);
  }
  job.ranges[task.number] = std::move(memory);
  if (!job.status.ok() && job.taken < job.rows) {
    // The rows after the one that failed are not needed any more.
    std::erase_if(open_, [&](Jobs::iterator at) { return at->get() == &job; });
    rows_taken_ += job.rows - job.taken;
    job.taken = job.rows;
  }
  return --job.stretches_left == 0 && job.taken == job.rows;
}

void RowJobs::FinishJobs(const RowTask& task, size_t num_jobs) {
  RowJob* job = task.job;
  for (size_t i = 0; i < num_jobs; ++i, job = job->next) {
    AddBytesAhead(static_cast<int64_t>(job->made_bytes) - static_cast<int64_t>(job->bytes));
    job->bytes = job->made_bytes;
    job->done = true;
  }
  num_done_ += num_jobs;
  counters_.ready = num_done_;
}

std::unique_ptr<RangeMemory> RowJobs::TakeMemory() {
  if (spares_.empty()) return nullptr;
  std::unique_ptr<RangeMemory> memory = std::move(spares_.back());
  spares_.pop_back();
  return memory;
}

void RowJobs::AddBytesAhead(int64_t bytes) {
  bytes_ahead_ += bytes;
  context_.ahead_bytes += bytes;
  counters_.ahead_bytes = bytes_ahead_;
  counters_.peak_bytes = std::max<uint64_t>(counters_.peak_bytes, bytes_ahead_);
}

void RowJobs::NoteLevel() {
  counters_.ahead = jobs_.size();
  if (context_.trace) context_.trace->AddLevel(counters_.name, NowNs(), jobs_.size());
}

}  // namespace shardfeed
