#include "base/fork_count.h"

#include <pthread.h>

#include <atomic>

namespace shardfeed {

uint64_t ForkCount() {
  static std::atomic<uint64_t> count = 0;
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++count; });
  (void)registered;
  return count.load(std::memory_order_relaxed);
}

}  // namespace shardfeed
