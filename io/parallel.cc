#include "io/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "io/thread.h"

namespace shardfeed {
namespace {

// The failure of the lowest index. Thread-safe.
class FirstFailure {
 public:
  void Add(size_t index, absl::Status status) {
    MutexLock lock(mutex_);
    if (!status_.ok() && index > index_) return;
    index_ = index;
    status_ = std::move(status);
  }
  absl::Status Take() {
    MutexLock lock(mutex_);
    return std::move(status_);
  }

 private:
  Mutex mutex_;
  size_t index_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Threads that have not ended.
struct Running {
  Mutex mutex;
  CondVar ended;
  size_t threads ABSL_GUARDED_BY(mutex) = 0;

  void Add() {
    MutexLock lock(mutex);
    ++threads;
  }
  void End() {
    MutexLock lock(mutex);
    if (--threads == 0) ended.NotifyAll();
  }
  // Returns whether all have ended; waits for that for a while.
  bool Await() {
    MutexLock lock(mutex);
    return ended.WaitFor(lock, WorkStop::kInterval,
                         [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return threads == 0; });
  }
};

}  // namespace

absl::Status ParallelFor(size_t count, int threads, std::stop_token stop,
                         const std::function<absl::Status(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  FirstFailure first;
  std::stop_source unwanted(std::nostopstate);
  std::vector<std::thread> others;
  const size_t useful = std::min<size_t>(std::max(threads, 1), count);
  absl::Status room = CatchAll([&] {
    others.reserve(useful);
    unwanted = std::stop_source();
  });
  if (!room.ok()) return room;
  const std::stop_callback stopped(stop, [&] { unwanted.request_stop(); });
  const std::stop_callback outer_stopped(WorkStop::Token(), [&] { unwanted.request_stop(); });
  auto run = [&] {
    while (!failed && !stop.stop_requested()) {
      const size_t index = next++;
      if (index >= count) return;
      absl::Status status = CatchAll([&] { return work(index); });
      if (status.ok()) continue;
      failed = true;
      // Then the others need not wait for stores any more, either.
      if (absl::IsCancelled(status)) unwanted.request_stop();
      first.Add(index, std::move(status));
    }
  };
  Running running;
  for (size_t i = 1; i < useful; ++i) {
    running.Add();
    absl::StatusOr<std::thread> thread = StartThread([&] {
      const WorkStop wanted(unwanted.get_token());
      run();
      running.End();
    });
    if (!thread.ok()) {  // The threads that did start do all the work.
      running.End();
      break;
    }
    others.push_back(*std::move(thread));
  }
  {
    // Without a stop, the user may interrupt this thread.
    std::optional<WorkStop> wanted;
    if (stop.stop_possible()) wanted.emplace(unwanted.get_token());
    run();
  }
  while (!running.Await()) {
    if (WorkStop::Requested()) unwanted.request_stop();
  }
  for (std::thread& thread : others) thread.join();
  if (absl::Status status = first.Take(); !status.ok()) return status;
  if (stop.stop_requested()) return absl::CancelledError("interrupted");
  return absl::OkStatus();
}

namespace {

// Returns the control group's processor time limit in processors, rounded up; INT_MAX without a
// limit.
int ControlGroupProcessors() {
  int64_t quota = 0;
  int64_t period = 0;
  // Version 2 says "QUOTA PERIOD" or "max PERIOD". Version 1 has a file for each, and a quota of -1
  // means no limit.
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); !(v2 >> quota >> period)) {
    quota = period = 0;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::min<int64_t>((quota + period - 1) / period, INT_MAX));
}

}  // namespace

int ThreadCount(int requested) {
  if (requested > 0) return requested;
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, std::min(allowed, ControlGroupProcessors()));
}

}  // namespace shardfeed
