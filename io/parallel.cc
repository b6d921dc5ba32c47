#include "io/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace shardfeed {

absl::Status ParallelFor(size_t count, int threads, std::stop_token stop,
                         const std::function<absl::Status(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  absl::Status first_failure;
  size_t first_index = count;
  auto run = [&] {
    while (!failed && !stop.stop_requested()) {
      const size_t index = next++;
      if (index >= count) return;
      absl::Status status = work(index);
      if (status.ok()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      failed = true;
      if (index < first_index) {
        first_index = index;
        first_failure = std::move(status);
      }
    }
  };
  std::vector<std::thread> others;
  const size_t useful = std::min<size_t>(std::max(threads, 1), count);
  for (size_t i = 1; i < useful; ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
  if (!first_failure.ok()) return first_failure;
  if (stop.stop_requested()) return absl::CancelledError("interrupted");
  return absl::OkStatus();
}

int ThreadCount(int requested) {
  if (requested > 0) return requested;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace shardfeed
