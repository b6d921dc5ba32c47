#include "pipeline/stages/parallel_stage.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/work_stop.h"
#include "io/thread.h"
#include "pipeline/stages/row_jobs.h"
#include "pipeline/stages/stretch_size.h"

namespace shardfeed {
namespace {

// Batches that take less time are handed out and announced several at a time, because waking a
// thread takes as long as some of them.
constexpr uint64_t kTaskNs = 4 * kRangeNs;
constexpr size_t kTaskBatches = 8;

using Clock = std::chrono::steady_clock;

class ParallelStage : public Stage {
 public:
  ParallelStage(std::unique_ptr<Stage> input, ParallelSteps steps, const void* key,
                std::shared_ptr<RunContext> context)
      : input_(std::move(input)),
        steps_(std::move(steps)),
        context_(std::move(context)),
        counters_(context_->Counters(key, steps_.name, [this](StageCounters& c) { SetLimits(c); })),
        maker_(steps_, *context_, *counters_),
        jobs_(steps_, *context_, *counters_, size_) {
    input_->Save(&state_);
    beyond_ = input_->Beyond();
  }

  ~ParallelStage() override { Stop(); }

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
    const std::unique_ptr<RowJob>& job = taken.job;
    if (!job->status.ok()) fatal_ = job->status;
    lock.Unlock();
    WakeAfter(taken);
    if (!job->status.ok()) {
      if (job->output.empty()) return job->status;
      // Deliver the rows before the one that failed; the error follows them.
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
    jobs_.Clear();
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

  bool AdvancePast(const RowOrigin& last, StateWords* state) const override {
    return steps_.at_most_one && context_->deterministic && input_->AdvancePast(last, state);
  }

 private:
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

  // Called if a thread ended while it had jobs, or none can start: nothing more is delivered.
  void Abandon(absl::Status status) {
    {
      MutexLock lock(mutex_);
      fatal_ = std::move(status);
    }
    done_.NotifyAll();
  }

  // Waits until the next job to deliver is finished, with a batch or an error, or until the input
  // has ended. Skips jobs whose rows were all dropped by filters. Returns false at `deadline`, or
  // if the run was cancelled. (`lock` is released meanwhile, which the analysis cannot follow.)
  bool AwaitDone(MutexLock& lock, Clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto ready = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !fatal_.ok() || (jobs_.empty() ? ended_ : jobs_.FirstDone() != nullptr);
    };
    // The caller may be a thread of another stage, which may be stopped before the run is.
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
      const RowJob& job = *jobs_.FirstDone();
      if (!job.status.ok() || !job.output.empty()) return true;
      const Taken passed = TakeDone();
      lock.Unlock();
      WakeAfter(passed);
      lock.Lock();
    }
  }

  // A delivered job, and which threads have work now: see WakeAfter.
  struct Taken {
    std::unique_ptr<RowJob> job;
    bool room = false;
    bool more_work = false;
  };

  // Requires a job that is finished.
  Taken TakeDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Taken taken;
    taken.job = jobs_.TakeDone(&taken.room);
    const int workers = counters_->workers;
    taken.more_work = workers > workers_seen_;
    workers_seen_ = workers;
    if (taken.job->status.ok() && taken.job->at_place) {
      state_ = std::move(taken.job->after);
      beyond_ = 0;
    } else {
      beyond_ += taken.job->output.num_elements();
    }
    return taken;
  }

  // Wakes threads; best called without the lock.
  void WakeAfter(const Taken& taken) {
    if (taken.room) work_.NotifyOne();
    if (taken.more_work) parked_.NotifyAll();
  }

  // What a thread does next.
  enum class Turn { kWait, kEnd, kRest, kTake, kPull };

  // Decides for thread `number`. Much of what this depends on changes at any time, even without the
  // mutex (the tuner's numbers, the bytes ahead in other stages), so a second call may differ.
  Turn NextTurn(int number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stopping_) return Turn::kEnd;
    if (number >= counters_->workers) return Turn::kRest;
    // After a cancellation, nothing more is begun.
    if (WorkStop::Token().stop_requested()) return Turn::kWait;
    if (jobs_.MayTake()) return Turn::kTake;
    return !pulling_ && !ended_ && jobs_.MayAdd() ? Turn::kPull : Turn::kWait;
  }

  // The body of thread `number` of the stage.
  void Work(int number) {
    const WorkStop stop(work_stop_.get_token());
    std::vector<std::unique_ptr<RowJob>> pulled;
    std::vector<std::unique_ptr<RangeMemory>> memories;
    MutexLock lock(mutex_);
    while (true) {
      Turn turn = Turn::kWait;
      work_.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        turn = NextTurn(number);
        return turn != Turn::kWait;
      });
      if (turn == Turn::kEnd) return;
      if (turn == Turn::kRest) {
        // Pass the notification on to a thread that may work.
        work_.NotifyOne();
        parked_.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return stopping_ || number < counters_->workers;
        });
        continue;
      }
      if (turn == Turn::kTake) {
        const RowTask task = jobs_.TakeTask();
        for (RowJob* job = task.job; job != nullptr; job = job->next) {
          memories.push_back(jobs_.TakeMemory());
        }
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
        shared = jobs_.StretchRows(*pulled.front()) < pulled.front()->rows;
        jobs_.Add(std::exchange(pulled, {}));
      }
      // This thread takes a task itself; another one may pull the next.
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

  // Pulls one job, or several if they take little time and the input has them ready.
  absl::Status PullTask(std::vector<std::unique_ptr<RowJob>>* jobs, bool* ended) {
    uint64_t expected_ns = 0;
    uint64_t bytes = context_->ahead_bytes;
    while (true) {
      auto job = std::make_unique<RowJob>();
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

  absl::Status Pull(RowJob& job) {
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
      // The output is still empty, so strings that it would point to must not be counted.
      job.bytes += job.rows * steps_.rows->fixed_row_bytes();
    }
    return status;
  }

  void RunTask(const RowTask& task, std::vector<std::unique_ptr<RangeMemory>>* memories) {
    const uint64_t start = NowNs();
    uint64_t begin = start;
    size_t num_finished = 0;
    RowJob* next = nullptr;
    for (RowJob* job = task.job; job != nullptr; job = next) {
      // If other threads have rows of the job, it may be gone once this thread's rows are done, so
      // `next` is read first.
      next = job->next;
      RowTask own = {job, 0, 0, job->rows, 0};
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
      jobs_.FinishJobs(task, num_finished);
    }
    done_.NotifyAll();
    // Unused reserved bytes may make room for another thread.
    work_.NotifyOne();
  }

  // Returns whether no rows of the job are left, and none in the hands of other threads.
  bool RunRows(const RowTask& task, std::unique_ptr<RangeMemory> memory) {
    if (steps_.rows == nullptr) return true;
    RowJob& job = *task.job;
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
    return jobs_.FinishStretch(task, std::move(memory), bytes, std::move(status));
  }

  const std::unique_ptr<Stage> input_;
  const ParallelSteps steps_;
  const std::shared_ptr<RunContext> context_;
  const std::shared_ptr<StageCounters> counters_;
  const OutputMaker maker_;
  // Used by the consumer only: see Save and Beyond.
  StateWords state_;
  uint64_t beyond_ = 0;
  std::vector<std::thread> threads_;  // used by the consumer only, which starts them
  // Stops these threads, with the run or earlier.
  std::stop_source work_stop_;
  std::optional<std::stop_callback<std::function<void()>>> stop_with_run_;

  Mutex mutex_;
  CondVar work_;
  CondVar parked_;  // for threads that are set aside
  StopCondVar done_;
  StretchSize size_;  // changed under mutex_; row_ns() is read without it
  RowJobs jobs_ ABSL_GUARDED_BY(mutex_);
  int workers_seen_ ABSL_GUARDED_BY(mutex_) = 0;  // number of workers at the consumer's last look
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
