#include "pipeline/stages/parallel_stage.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "io/thread.h"
#include "pipeline/data/work_stop.h"
#include "pipeline/stages/stretch_size.h"

namespace shardfeed {
namespace {

// What a stretch of rows should make, as a share of the budget for each thread.
constexpr uint64_t kBudgetShare = 8;
// Batches that take less are handed out and announced several at a time: waking a thread takes as
// long as some of them.
constexpr uint64_t kTaskNs = 4 * kRangeNs;
constexpr size_t kTaskBatches = 8;
// So that one row that takes many times longer than the others does not leave threads idle.
constexpr size_t kRowsAheadPerThread = 64;
constexpr size_t kMaxBatchesAhead = 256;

using Clock = std::chrono::steady_clock;

class ParallelStage : public Stage {
 public:
  ParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps, const void* key,
                std::shared_ptr<RunContext> context)
      : input_(std::move(input)),
        steps_(std::move(steps)),
        context_(std::move(context)),
        counters_(context_->Counters(key, steps_.name, [this](StageCounters& c) { SetLimits(c); })),
        maker_(steps_, *context_, *counters_) {
    input_->Save(&state_);
    beyond_ = input_->Beyond();
  }

  ~ParallelStage() override {
    Stop();
    context_->ahead_bytes -= bytes_ahead_;
  }

  absl::Status Next(Batch* out) override {
    *out = Batch();
    Start();
    MutexLock lock(mutex_);
    if (!AwaitDone(lock, Clock::time_point::max())) {
      return absl::CancelledError("the run was cancelled");
    }
    if (!fatal_.ok()) return fatal_;
    if (jobs_.empty()) return input_status_;
    const Taken taken = TakeDone();
    const std::unique_ptr<Job>& job = taken.job;
    if (!job->status.ok()) fatal_ = job->status;
    lock.Unlock();
    WakeAfter(taken);
    if (!job->status.ok()) {
      if (job->output.empty()) return job->status;
      // The rows before the one that failed; the error follows them.
    }
    *out = std::move(job->output);
    counters_->batches += 1;
    counters_->rows += out->rows;
    return absl::OkStatus();
  }

  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    Start();
    const Clock::time_point deadline =
        most.count() > 0 ? Clock::now() + most : Clock::time_point::min();
    MutexLock lock(mutex_);
    return AwaitDone(lock, deadline) || context_->stop.stop_requested();
  }

  void Save(StateWords* words) const override {
    words->insert(words->end(), state_.begin(), state_.end());
  }

  uint64_t Beyond() const override { return beyond_; }

  absl::Status Load(StateReader* words) override {
    Stop();
    MutexLock lock(mutex_);
    jobs_.clear();
    open_.clear();
    num_done_ = tasks_ahead_ = rows_ahead_ = rows_taken_ = 0;
    AddBytesAhead(-static_cast<int64_t>(bytes_ahead_));
    ended_ = pulling_ = false;
    input_status_ = fatal_ = absl::OkStatus();
    absl::Status status = input_->Load(words);
    state_.clear();
    input_->Save(&state_);
    beyond_ = input_->Beyond();
    return status;
  }

  bool Advance(uint64_t elements, StateWords* state) const override {
    return steps_.one_to_one && input_->Advance(elements, state);
  }

 private:
  struct Job : StepsJob {
    // Rows that are one element, or depend on one another, come to one output. Others are delivered
    // in the stretches in which they are taken, each of which becomes a job of its own.
    bool whole = false;
    size_t rows = 0;
    size_t taken = 0;           // rows that threads have taken
    size_t stretches_left = 0;  // that threads have taken and not done
    uint64_t bytes = 0;         // that it takes, as AddBytesAhead was told
    uint64_t made_bytes = 0;    // of `output`
    StateWords after;           // the input's, behind this
    bool at_place = false;      // `after` is a place to come back to
    bool done = false;
    // Of its task: the job behind it, and whether there is none.
    Job* next = nullptr;
    bool ends_task = true;
  };
  using Jobs = std::list<std::unique_ptr<Job>>;
  // Rows of a job; or jobs from `job` on, one after another, with all of their rows.
  struct Task {
    Job* job;
    size_t number;  // of job->ranges
    size_t begin;
    size_t end;
    uint64_t reserved;  // of job->bytes: what the rows may make
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
    {
      MutexLock lock(mutex_);
      stopping_ = false;
      workers_seen_ = counters_->workers;
    }
    work_stop_ = std::stop_source();
    stop_with_run_.emplace(context_->stop.get_token(), [this] { work_stop_.request_stop(); });
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
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    work_stop_.request_stop();
    work_.NotifyAll();
    parked_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    stop_with_run_.reset();
  }

  // A thread ended with jobs in its hands, or none can start: nothing more is delivered.
  void Abandon(absl::Status status) {
    {
      MutexLock lock(mutex_);
      fatal_ = std::move(status);
    }
    done_.NotifyAll();
  }

  // A job that is to be delivered now, if it is done; else the end.
  Jobs::iterator FindDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (context_->deterministic) {
      return !jobs_.empty() && jobs_.front()->done ? jobs_.begin() : jobs_.end();
    }
    if (num_done_ == 0) return jobs_.end();
    return std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->done; });
  }

  // Waits until there is such a job with a batch or an error, or an end without jobs. Those of
  // which filters left nothing are passed. False: not before `deadline`, or the run was cancelled.
  // (`lock` is let go meanwhile, which the analysis cannot follow.)
  bool AwaitDone(MutexLock& lock, Clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto ready = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !fatal_.ok() || (jobs_.empty() ? ended_ : FindDone() != jobs_.end());
    };
    // Whoever asks may be a thread of another stage, which is stopped before the run is.
    const std::stop_token stop =
        WorkStop::Token().stop_possible() ? WorkStop::Token() : context_->stop.get_token();
    while (true) {
      if (!ready()) {
        const Clock::time_point start = Clock::now();
        if (start >= deadline) return false;
        const bool in_time = done_.WaitUntil(lock, stop, deadline, ready);
        counters_->wait_out_ns += (Clock::now() - start).count();
        if (!in_time) return false;
      }
      if (!fatal_.ok() || jobs_.empty()) return true;
      const Job& job = **FindDone();
      if (!job.status.ok() || !job.output.empty()) return true;
      const Taken passed = TakeDone();
      lock.Unlock();
      WakeAfter(passed);
      lock.Lock();
    }
  }

  // A job that was taken, and for whom there is work then: see WakeAfter.
  struct Taken {
    std::unique_ptr<Job> job;
    bool room = false;
    bool more_work = false;
  };

  // Takes the job that FindDone finds.
  Taken TakeDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = FindDone();
    std::unique_ptr<Job> job = std::move(*it);
    jobs_.erase(it);
    --num_done_;
    if (job->ends_task) --tasks_ahead_;
    rows_ahead_ -= job->rows;
    rows_taken_ -= job->rows;
    AddBytesAhead(-static_cast<int64_t>(job->bytes));
    counters_->ready = num_done_;
    NoteLevel();
    const int workers = counters_->workers;
    const bool more_work = workers > workers_seen_;
    workers_seen_ = workers;
    if (job->status.ok() && job->at_place) {
      state_ = std::move(job->after);
      beyond_ = 0;
    } else {
      beyond_ += job->output.num_elements();
    }
    const bool room = job->ends_task || jobs_.size() < 2;
    Recycle(*job);
    return {std::move(job), room, more_work};
  }

  // Wakes threads, best without the lock.
  void WakeAfter(const Taken& taken) {
    if (taken.room) work_.NotifyOne();
    if (taken.more_work) parked_.NotifyAll();
  }

  // Whether more may be begun: what is ahead of the consumer is within the budget, and not too
  // much for it.
  bool MayGoAhead(size_t rows) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (context_->ahead_bytes >= context_->budget_bytes) return false;
    return tasks_ahead_ < counters_->read_ahead ||
           (!steps_.input_may_await && rows < kRowsAheadPerThread * counters_->workers);
  }
  // What comes next for the consumer may always be worked on.
  bool MayPull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (pulling_ || ended_) return false;
    if (jobs_.empty()) return true;
    return jobs_.size() < kMaxBatchesAhead && MayGoAhead(rows_ahead_);
  }
  bool MayTake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (open_.empty()) return false;
    const Job& job = *open_.front()->get();
    if (&job == jobs_.front().get()) return true;
    if (job.whole || job.next != nullptr) return context_->ahead_bytes < context_->budget_bytes;
    return MayGoAhead(rows_taken_);
  }

  // The rows of `job` that a thread takes next.
  size_t StretchRows(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t left = job.rows - job.taken;
    if (job.whole && steps_.rows == nullptr) return left;
    return size_.Rows(left, job.whole, context_->budget_bytes / kBudgetShare / context_->threads);
  }

  // MayTake() holds.
  Task TakeTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const typename Jobs::iterator at = open_.front();
    Job* job = at->get();
    if (job->next != nullptr) {
      open_.pop_front();
      for (Job* j = job; j != nullptr; j = j->next) {
        j->taken = j->rows;
        j->stretches_left = 1;
        j->ranges.resize(1);
        rows_taken_ += j->rows;
      }
      return {job, 0, 0, job->rows, 0};
    }
    const size_t n = StretchRows(*job);
    Task task = {job, 0, job->taken, job->taken + n, n * size_.row_bytes()};
    if (job->whole || n == job->rows) {
      if (n == job->rows - job->taken) open_.pop_front();
    } else {
      // The rows become a job of their own, before what is left of the one that they were of.
      auto part = std::make_unique<Job>();
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

  // Thread `number` of the stage.
  void Work(int number) {
    const WorkStop stop(work_stop_.get_token());
    const auto parked = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return number >= counters_->workers;
    };
    // Once the run is cancelled, nothing more is begun.
    const auto wanted = [&] { return !WorkStop::Token().stop_requested(); };
    std::vector<std::unique_ptr<Job>> pulled;
    std::vector<std::unique_ptr<RangeMemory>> memories;
    MutexLock lock(mutex_);
    while (true) {
      work_.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || parked() || (wanted() && (MayTake() || MayPull()));
      });
      if (stopping_) return;
      if (parked()) {
        // What woke this thread is for another one.
        work_.NotifyOne();
        parked_.Wait(
            lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !parked(); });
        continue;
      }
      if (MayTake()) {
        const Task task = TakeTask();
        for (Job* job = task.job; job != nullptr; job = job->next) memories.push_back(TakeMemory());
        lock.Unlock();
        context_->gate.Enter();
        absl::Status status = CatchAll([&] { RunTask(task, &memories); });
        context_->gate.Leave();
        if (!status.ok()) return Abandon(std::move(status));
        memories.clear();
        lock.Lock();
        continue;
      }
      pulling_ = true;
      lock.Unlock();
      bool ended = false;
      absl::Status status = PullTask(&pulled, &ended);
      lock.Lock();
      pulling_ = false;
      if (ended) {
        ended_ = true;
        input_status_ = std::move(status);
      }
      bool shared = false;
      if (!pulled.empty()) {
        shared = StretchRows(*pulled.front()) < pulled.front()->rows;
        ++tasks_ahead_;
        for (std::unique_ptr<Job>& job : pulled) {
          const bool first = job == pulled.front();
          rows_ahead_ += job->rows;
          AddBytesAhead(static_cast<int64_t>(job->bytes));
          jobs_.push_back(std::move(job));
          if (first) open_.push_back(std::prev(jobs_.end()));
        }
        pulled.clear();
        NoteLevel();
      }
      // This thread takes a task itself; one more may pull the next one.
      lock.Unlock();
      if (ended) done_.NotifyAll();
      if (ended || shared) {
        work_.NotifyAll();
      } else {
        work_.NotifyOne();
      }
      lock.Lock();
    }
  }

  void AddBytesAhead(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bytes_ahead_ += bytes;
    context_->ahead_bytes += bytes;
    counters_->ahead_bytes = bytes_ahead_;
    counters_->peak_bytes = std::max<uint64_t>(counters_->peak_bytes, bytes_ahead_);
  }
  void NoteLevel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
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
      absl::Status status = Pull(*job);
      const uint64_t pull_ns = NowNs() - start;
      if (!status.ok() || job->input.empty()) {
        *ended = true;
        return status;
      }
      const uint64_t row_ns = size_.row_ns();
      expected_ns += job->rows * row_ns;
      bytes += job->bytes;
      const bool alone = !job->status.ok() || !size_.InOneStretch(job->rows, row_ns);
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

  absl::Status Pull(Job& job) {
    const uint64_t start = NowNs();
    absl::Status status = input_->Next(&job.input);
    if (!status.ok() || job.input.empty()) return status;
    job.at_place = input_->Beyond() == 0;
    if (job.at_place) input_->Save(&job.after);
    const uint64_t end = NowNs();
    counters_->wait_in_ns += end - start;
    if (context_->trace) context_->trace->Add("input", start, end, job.input.rows);
    job.rows = job.input.rows;
    job.whole = job.input.batched || (steps_.rows != nullptr && steps_.rows->replaces());
    job.bytes = job.input.bytes();
    counters_->bytes += job.bytes;
    if (job.whole && steps_.rows != nullptr) {
      maker_.Allocate(job);
      // Nothing is in it yet: what strings there would point to is not to be counted.
      job.bytes += job.rows * steps_.rows->fixed_row_bytes();
    }
    return status;
  }

  std::unique_ptr<RangeMemory> TakeMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (spares_.empty()) return nullptr;
    std::unique_ptr<RangeMemory> memory = std::move(spares_.back());
    spares_.pop_back();
    return memory;
  }
  void Recycle(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
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
      // Of a job with rows in the hands of others, this is all that is looked at behind its own.
      next = job->next;
      Task own = {job, 0, 0, job->rows, 0};
      if (job == task.job) own = task;
      if (!job->whole && steps_.rows != nullptr) maker_.Allocate(*job);
      const bool whole = job->whole;
      const bool last = RunRows(own, std::move((*memories)[num_finished]));
      if (last) {
        maker_.Finish(*job);
        job->made_bytes = job->output.bytes();
        ++num_finished;
      }
      const uint64_t end = NowNs();
      if (!whole) {
        MutexLock lock(mutex_);
        size_.Learn(own.end - own.begin, whole, end - begin, job->made_bytes);
      }
      if (context_->trace) context_->trace->Add(counters_->name, begin, end, own.end - own.begin);
      begin = end;
    }
    counters_->busy_ns += NowNs() - start;
    if (num_finished == 0) return;
    {
      MutexLock lock(mutex_);
      for (Job* job = task.job; job != nullptr; job = job->next) {
        AddBytesAhead(static_cast<int64_t>(job->made_bytes) - static_cast<int64_t>(job->bytes));
        job->bytes = job->made_bytes;
        job->done = true;
      }
      num_done_ += num_finished;
      counters_->ready = num_done_;
    }
    done_.NotifyAll();
    // What was reserved and not needed may be room for another one.
    work_.NotifyOne();
  }

  // True: no rows of the job are left, and none in the hands of others.
  bool RunRows(const Task& task, std::unique_ptr<RangeMemory> memory) {
    if (steps_.rows == nullptr) return true;
    Job& job = *task.job;
    absl::Status status;
    uint64_t ns = 0;
    uint64_t bytes = 0;
    if (job.fixed.spec != nullptr) {
      if (memory == nullptr) memory = steps_.rows->MakeMemory();
      const uint64_t start = NowNs();
      status = steps_.rows->Run(job.input, job.fixed, task.begin, task.end, memory.get());
      ns = NowNs() - start;
      bytes = steps_.rows->VariableBytes(*memory);
    }
    MutexLock lock(mutex_);
    if (job.whole) size_.Learn(task.end - task.begin, true, ns, bytes);
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
      // The rows behind are not wanted any more.
      std::erase_if(open_, [&](Jobs::iterator at) { return at->get() == &job; });
      rows_taken_ += job.rows - job.taken;
      job.taken = job.rows;
    }
    return --job.stretches_left == 0 && job.taken == job.rows;
  }

  const std::unique_ptr<Stage> input_;
  const ParallelSteps steps_;
  const std::shared_ptr<RunContext> context_;
  const std::shared_ptr<StageCounters> counters_;
  const OutputMaker maker_;
  // The consumer's: see Save and Beyond.
  StateWords state_;
  uint64_t beyond_ = 0;
  std::vector<std::thread> threads_;  // the consumer's, as they start
  // Ends the work of these threads, with the run or before.
  std::stop_source work_stop_;
  std::optional<std::stop_callback<std::function<void()>>> stop_with_run_;

  Mutex mutex_;
  CondVar work_;
  CondVar parked_;  // threads that are not to work
  StopCondVar done_;
  Jobs jobs_ ABSL_GUARDED_BY(mutex_);  // in order
  std::deque<Jobs::iterator> open_
      ABSL_GUARDED_BY(mutex_);  // those with rows that no thread has taken, in order
  StretchSize size_;            // changed under mutex_; row_ns() is read without it
  std::vector<std::unique_ptr<RangeMemory>> spares_ ABSL_GUARDED_BY(mutex_);
  int workers_seen_ ABSL_GUARDED_BY(mutex_) = 0;  // by the consumer
  size_t num_done_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t tasks_ahead_ ABSL_GUARDED_BY(mutex_) = 0;  // not delivered to their last job
  size_t rows_ahead_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t rows_taken_ ABSL_GUARDED_BY(mutex_) = 0;  // of these
  uint64_t bytes_ahead_ ABSL_GUARDED_BY(mutex_) = 0;
  bool pulling_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status input_status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);  // see Abandon
};

}  // namespace

std::unique_ptr<Stage> MakeParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps,
                                         const void* key, std::shared_ptr<RunContext> context) {
  return std::make_unique<ParallelStage>(std::move(input), std::move(steps), key,
                                         std::move(context));
}

}  // namespace shardfeed
