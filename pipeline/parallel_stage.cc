#include "pipeline/parallel_stage.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "io/thread.h"

namespace shardfeed {
namespace {

// What a range should take: long beside handing it out, short beside a batch.
constexpr uint64_t kRangeNs = 100'000;
// Batches that take less are handed out and announced several at a time: waking a thread takes as
// long as some of them.
constexpr uint64_t kTaskNs = 4 * kRangeNs;
constexpr size_t kTaskBatches = 8;
// So that one row that takes many times longer than the others does not leave threads idle.
constexpr size_t kRowsAheadPerThread = 64;
constexpr size_t kMaxBatchesAhead = 256;

using Clock = std::chrono::steady_clock;

uint64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

class ParallelStage : public Stage {
 public:
  ParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps, const void* key,
                std::shared_ptr<RunContext> context)
      : input_(std::move(input)),
        steps_(std::move(steps)),
        context_(std::move(context)),
        counters_(
            context_->Counters(key, steps_.name, [this](StageCounters& c) { SetLimits(c); })) {
    input_->Save(&state_);
  }

  ~ParallelStage() override {
    Stop();
    context_->ahead_bytes -= bytes_ahead_;
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    Start();
    std::unique_lock<std::mutex> lock(mutex_);
    if (!AwaitDone(lock, Clock::time_point::max())) {
      return absl::CancelledError("the run was cancelled");
    }
    if (!fatal_.ok()) return fatal_;
    if (jobs_.empty()) return input_status_;
    const std::unique_ptr<Job> job = TakeDone(lock);
    if (!job->status.ok()) return job->status;
    *out = std::move(job->output);
    counters_->batches += 1;
    counters_->rows += out->rows;
    return absl::OkStatus();
  }

  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    Start();
    const Clock::time_point deadline =
        most.count() > 0 ? Clock::now() + most : Clock::time_point::min();
    std::unique_lock<std::mutex> lock(mutex_);
    return AwaitDone(lock, deadline) || context_->stop.stop_requested();
  }

  void Save(StateWords* words) const override {
    words->insert(words->end(), state_.begin(), state_.end());
  }

  absl::Status Load(StateReader* words) override {
    Stop();
    jobs_.clear();
    tasks_.clear();
    num_done_ = tasks_ahead_ = rows_ahead_ = 0;
    AddBytesAhead(-static_cast<int64_t>(bytes_ahead_));
    ended_ = pulling_ = false;
    input_status_ = fatal_ = absl::OkStatus();
    absl::Status status = input_->Load(words);
    state_.clear();
    input_->Save(&state_);
    return status;
  }

  bool Advance(uint64_t elements, StateWords* state) const override {
    return steps_.one_to_one && input_->Advance(elements, state);
  }

 private:
  struct Job {
    Batch input;
    Batch fixed;
    std::vector<std::unique_ptr<RangeMemory>> ranges;
    size_t ranges_left = 0;
    size_t rows = 0;
    uint64_t bytes = 0;
    Batch output;
    absl::Status status;
    size_t failed_row = SIZE_MAX;
    StateWords after;  // the input's
    bool done = false;
    // Of its task: the job behind it, and whether there is none.
    Job* next = nullptr;
    bool ends_task = true;
  };
  // A range of a job's rows; or jobs from `job` on, one after another, with all of their rows.
  struct Task {
    Job* job;
    size_t number;
    size_t begin;
    size_t end;
  };

  void SetLimits(StageCounters& counters) const {
    counters.threads = counters.workers = context_->threads;
    counters.read_ahead = steps_.prefetch + context_->threads;
    counters.tunable = context_->autotune;
    for (const StageTuning& tuning : context_->tuning) {
      if (tuning.stage != counters.name) continue;
      counters.workers = std::clamp(tuning.workers, 1, counters.threads);
      counters.read_ahead = std::max<uint64_t>(tuning.read_ahead, 2);
      counters.tunable = false;
    }
  }

  void Start() {
    if (!threads_.empty()) return;
    stopping_ = false;
    workers_seen_ = counters_->workers;
    threads_.reserve(counters_->threads);
    for (int i = 0; i < counters_->threads; ++i) {
      absl::StatusOr<std::thread> thread = StartThread([this, i] {
        absl::Status status = CatchAll([&] { Work(i); });
        if (!status.ok()) Abandon(std::move(status));
      });
      if (!thread.ok()) {
        if (i == 0) Abandon(thread.status());
        return;
      }
      threads_.push_back(*std::move(thread));
    }
  }

  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    parked_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // A thread ended with jobs in its hands, or none can start: nothing more is delivered.
  void Abandon(absl::Status status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      fatal_ = std::move(status);
    }
    done_.notify_all();
  }

  // Called with mutex_ held. A job that is to be delivered now, if it is done; else the end.
  std::deque<std::unique_ptr<Job>>::iterator FindDone() {
    if (context_->deterministic) {
      return !jobs_.empty() && jobs_.front()->done ? jobs_.begin() : jobs_.end();
    }
    if (num_done_ == 0) return jobs_.end();
    return std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->done; });
  }

  // Waits until there is such a job with a batch or an error, or an end without jobs. Those of
  // which filters left nothing are passed. False: not before `deadline`, or the run was cancelled.
  bool AwaitDone(std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
    const auto ready = [&] {
      return !fatal_.ok() || (jobs_.empty() ? ended_ : FindDone() != jobs_.end());
    };
    while (true) {
      if (!ready()) {
        const Clock::time_point start = Clock::now();
        if (start >= deadline) return false;
        const bool in_time = done_.wait_until(lock, context_->stop.get_token(), deadline, ready);
        counters_->wait_out_ns += (Clock::now() - start).count();
        if (!in_time) return false;
      }
      if (!fatal_.ok() || jobs_.empty()) return true;
      const Job& job = **FindDone();
      if (!job.status.ok() || !job.output.empty()) return true;
      TakeDone(lock);
      lock.lock();
    }
  }

  // Takes that job, and lets go of the lock: there may be room for more.
  std::unique_ptr<Job> TakeDone(std::unique_lock<std::mutex>& lock) {
    const auto it = FindDone();
    std::unique_ptr<Job> job = std::move(*it);
    jobs_.erase(it);
    --num_done_;
    if (job->ends_task) --tasks_ahead_;
    rows_ahead_ -= job->rows;
    AddBytesAhead(-static_cast<int64_t>(job->bytes));
    counters_->ready = num_done_;
    NoteLevel();
    const int workers = counters_->workers;
    const bool more_work = workers > workers_seen_;
    workers_seen_ = workers;
    if (job->status.ok()) state_ = std::move(job->after);
    const bool room = job->ends_task || jobs_.size() < 2;
    Recycle(*job);
    lock.unlock();
    if (room) work_.notify_one();
    if (more_work) parked_.notify_all();
    return job;
  }

  bool MayPull() const {
    if (pulling_ || ended_) return false;
    if (jobs_.size() < 2) return true;
    if (context_->ahead_bytes >= context_->budget_bytes || jobs_.size() >= kMaxBatchesAhead) {
      return false;
    }
    return tasks_ahead_ < counters_->read_ahead ||
           (!steps_.input_may_await && rows_ahead_ < kRowsAheadPerThread * counters_->workers);
  }

  // Thread `number` of the stage.
  void Work(int number) {
    const auto parked = [&] { return number >= counters_->workers; };
    std::vector<std::unique_ptr<Job>> pulled;
    std::vector<std::unique_ptr<RangeMemory>> memories;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stopping_ || parked() || !tasks_.empty() || MayPull(); });
      if (stopping_) return;
      if (parked()) {
        // What woke this thread is for another one.
        work_.notify_one();
        parked_.wait(lock, [&] { return stopping_ || !parked(); });
        continue;
      }
      if (!tasks_.empty()) {
        const Task task = tasks_.front();
        tasks_.pop_front();
        for (Job* job = task.job; job != nullptr; job = job->next) memories.push_back(TakeMemory());
        lock.unlock();
        context_->gate.Enter();
        absl::Status status = CatchAll([&] { RunTask(task, &memories); });
        context_->gate.Leave();
        if (!status.ok()) return Abandon(std::move(status));
        memories.clear();
        lock.lock();
        continue;
      }
      pulling_ = true;
      lock.unlock();
      bool ended = false;
      absl::Status status = PullTask(&pulled, &ended);
      lock.lock();
      pulling_ = false;
      if (ended) {
        ended_ = true;
        input_status_ = std::move(status);
      }
      size_t n = 0;
      if (!pulled.empty()) {
        Job& first = *pulled.front();
        n = first.ranges_left;
        for (size_t i = 0; i < n; ++i) {
          tasks_.push_back({&first, i, first.rows * i / n, first.rows * (i + 1) / n});
        }
        ++tasks_ahead_;
        for (std::unique_ptr<Job>& job : pulled) {
          rows_ahead_ += job->rows;
          AddBytesAhead(static_cast<int64_t>(job->bytes));
          jobs_.push_back(std::move(job));
        }
        pulled.clear();
        NoteLevel();
      }
      // This thread takes a task itself; one more may pull the next one.
      lock.unlock();
      if (ended) done_.notify_all();
      if (ended || n > 1) {
        work_.notify_all();
      } else {
        work_.notify_one();
      }
      lock.lock();
    }
  }

  // Called with mutex_ held.
  void AddBytesAhead(int64_t bytes) {
    bytes_ahead_ += bytes;
    context_->ahead_bytes += bytes;
    counters_->ahead_bytes = bytes_ahead_;
    counters_->peak_bytes = std::max<uint64_t>(counters_->peak_bytes, bytes_ahead_);
  }
  void NoteLevel() {
    counters_->ahead = jobs_.size();
    if (context_->trace) context_->trace->AddLevel(counters_->name, NowNs(), jobs_.size());
  }

  // One job; or several, if they take little time and the input has them at hand.
  absl::Status PullTask(std::vector<std::unique_ptr<Job>>* jobs, bool* ended) {
    uint64_t expected_ns = 0;
    uint64_t bytes = context_->ahead_bytes;
    while (true) {
      auto job = std::make_unique<Job>();
      const uint64_t start = NowNs();
      absl::Status status = Pull(*job, jobs->empty() ? SIZE_MAX : 1);
      const uint64_t pull_ns = NowNs() - start;
      if (!status.ok() || job->input.empty()) {
        *ended = true;
        return status;
      }
      const uint64_t row_ns = row_ns_.load(std::memory_order_relaxed);
      expected_ns += job->rows * row_ns;
      bytes += job->bytes;
      const bool alone = job->ranges_left > 1 || row_ns == 0;
      if (!jobs->empty()) {
        jobs->back()->next = job.get();
        jobs->back()->ends_task = false;
      }
      jobs->push_back(std::move(job));
      if (alone || steps_.input_may_await ||
          expected_ns * (jobs->size() + 1) / jobs->size() > kTaskNs || pull_ns >= kRangeNs ||
          bytes >= context_->budget_bytes || jobs->size() >= kTaskBatches) {
        return absl::OkStatus();
      }
    }
  }

  absl::Status Pull(Job& job, size_t most_ranges) {
    const uint64_t start = NowNs();
    absl::Status status = input_->Next(&job.input);
    if (!status.ok() || job.input.empty()) return status;
    input_->Save(&job.after);
    const uint64_t end = NowNs();
    counters_->wait_in_ns += end - start;
    if (context_->trace) context_->trace->Add("input", start, end, job.input.rows);
    job.rows = job.input.rows;
    job.bytes = job.input.bytes();
    counters_->bytes += job.bytes;
    job.ranges_left = 1;
    if (steps_.rows != nullptr) {
      job.fixed = steps_.rows->AllocateFixed(job.input, context_->allocator);
      // Nothing is in it yet: what strings there would point to is not to be counted.
      for (const ColumnSpec& column : *job.fixed.spec) job.bytes += job.rows * column.bytes();
      const uint64_t row_ns = row_ns_.load(std::memory_order_relaxed);
      // Before anything is known, a few.
      job.ranges_left = row_ns == 0 ? 4 : job.rows * row_ns / kRangeNs;
      job.ranges_left = std::clamp<size_t>(job.ranges_left, 1, std::min(job.rows, most_ranges));
      job.ranges.resize(job.ranges_left);
    }
    return status;
  }

  // Called with mutex_ held.
  std::unique_ptr<RangeMemory> TakeMemory() {
    if (spares_.empty()) return nullptr;
    std::unique_ptr<RangeMemory> memory = std::move(spares_.back());
    spares_.pop_back();
    return memory;
  }
  void Recycle(Job& job) {
    for (auto& memory : job.ranges) {
      if (memory != nullptr && spares_.size() < 4 * threads_.size()) {
        spares_.push_back(std::move(memory));
      }
    }
  }

  void RunTask(const Task& task, std::vector<std::unique_ptr<RangeMemory>>* memories) {
    const uint64_t start = NowNs();
    uint64_t begin = start;
    size_t num_finished = 0;
    Job* next = nullptr;
    for (Job* job = task.job; job != nullptr; job = next) {
      // Of a job with ranges in the hands of others, this is all that is looked at behind its own.
      next = job->next;
      const size_t row_end = job == task.job ? task.end : job->rows;
      const size_t row = job == task.job ? task.begin : 0;
      const size_t number = job == task.job ? task.number : 0;
      if (RunRange(*job, number, row, row_end, std::move((*memories)[num_finished]))) {
        Finish(*job);
        ++num_finished;
      }
      const uint64_t end = NowNs();
      if (context_->trace) context_->trace->Add(counters_->name, begin, end, row_end - row);
      begin = end;
    }
    counters_->busy_ns += NowNs() - start;
    if (num_finished == 0) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (Job* job = task.job; job != nullptr; job = job->next) {
        const uint64_t bytes = job->output.bytes();
        AddBytesAhead(static_cast<int64_t>(bytes) - static_cast<int64_t>(job->bytes));
        job->bytes = bytes;
        job->done = true;
      }
      num_done_ += num_finished;
      counters_->ready = num_done_;
    }
    done_.notify_all();
  }

  // True: this was the last of the job's ranges.
  bool RunRange(Job& job, size_t number, size_t begin, size_t end,
                std::unique_ptr<RangeMemory> memory) {
    if (steps_.rows == nullptr) return true;
    if (memory == nullptr) memory = steps_.rows->MakeMemory();
    const uint64_t start = NowNs();
    absl::Status status = steps_.rows->Run(job.input, job.fixed, begin, end, memory.get());
    // A moving mean, which the first range sets.
    const uint64_t each = std::max<uint64_t>((NowNs() - start) / (end - begin), 1);
    const uint64_t mean = row_ns_.load(std::memory_order_relaxed);
    row_ns_.store(mean == 0 ? each : (7 * mean + each) / 8, std::memory_order_relaxed);
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status.ok() && memory->range.failed_row < job.failed_row) {
      job.failed_row = memory->range.failed_row;
      job.status = std::move(status);
    }
    job.ranges[number] = std::move(memory);
    return --job.ranges_left == 0;
  }

  // All ranges are done, and no other thread has the job.
  void Finish(Job& job) {
    if (!job.status.ok()) {
      const std::string where = context_->Describe(job.input, job.failed_row);
      const std::string what(job.status.message());
      job.status = absl::Status(job.status.code(),
                                where.empty() ? what : fmt::format("{}: {}", where, what));
      return;
    }
    if (steps_.rows != nullptr) {
      uint64_t num_invalid = 0;
      job.output = steps_.rows->Finish(std::move(job.input), std::move(job.fixed), job.ranges,
                                       context_->allocator, &num_invalid);
      counters_->invalid += num_invalid;
      job.fixed = Batch();
    } else {
      job.output = std::move(job.input);
    }
    job.input = Batch();
    for (const BatchFn& fn : steps_.batches) {
      if (job.output.empty()) return;
      try {
        job.status = fn(job.output);
      } catch (const std::bad_alloc&) {
        job.status = OutOfMemory();
      } catch (const std::exception& e) {
        job.status = absl::InternalError(fmt::format("{}: {}", steps_.name, e.what()));
      }
      if (job.status.ok()) continue;
      const std::string where = context_->Describe(job.output, 0);
      if (!where.empty()) {
        job.status =
            absl::Status(job.status.code(), fmt::format("the batch that begins with {}: {}", where,
                                                        std::string(job.status.message())));
      }
      return;
    }
  }

  const std::unique_ptr<Stage> input_;
  const ParallelSteps steps_;
  const std::shared_ptr<RunContext> context_;
  const std::shared_ptr<StageCounters> counters_;
  std::atomic<uint64_t> row_ns_ = 0;
  StateWords state_;                  // the consumer's
  std::vector<std::thread> threads_;  // the consumer's, as they start

  std::mutex mutex_;  // guards all below
  std::condition_variable work_;
  std::condition_variable parked_;  // threads that are not to work
  std::condition_variable_any done_;
  std::deque<std::unique_ptr<Job>> jobs_;  // in order
  std::deque<Task> tasks_;                 // that no thread has taken
  std::vector<std::unique_ptr<RangeMemory>> spares_;
  int workers_seen_ = 0;  // by the consumer
  size_t num_done_ = 0;
  size_t tasks_ahead_ = 0;  // not delivered to their last job
  size_t rows_ahead_ = 0;
  uint64_t bytes_ahead_ = 0;
  bool pulling_ = false;
  bool ended_ = false;
  absl::Status input_status_;
  bool stopping_ = false;
  absl::Status fatal_;  // see Abandon
};

}  // namespace

std::unique_ptr<Stage> MakeParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps,
                                         const void* key, std::shared_ptr<RunContext> context) {
  return std::make_unique<ParallelStage>(std::move(input), std::move(steps), key,
                                         std::move(context));
}

}  // namespace shardfeed
