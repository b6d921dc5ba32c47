// A memory limit shared by several users.

#ifndef SHARDFEED_IO_BUDGET_H_
#define SHARDFEED_IO_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/mutex.h"

namespace shardfeed {

// Counts the bytes in use against a limit. Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Returns false and reserves nothing if the limit would be exceeded.
  bool TryReserve(uint64_t bytes);
  // Reserves even beyond the limit: for the one request that all others wait for.
  void ForceReserve(uint64_t bytes);
  void Release(uint64_t bytes);

  // `on_room` is called by the first Release after each call of NotifyOnRelease, on the thread that
  // releases. Once SetOnRoom(nullptr) has returned, the previous callback is not called any more.
  void SetOnRoom(std::function<void()> on_room);
  void NotifyOnRelease() { notify_.store(true); }

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // The largest number of bytes that were in use at the same time.
  uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  void NotePeak(uint64_t used);

  const uint64_t limit_;
  std::atomic<uint64_t> used_ = 0;
  std::atomic<uint64_t> peak_ = 0;
  std::atomic<bool> notify_ = false;
  Mutex mutex_;
  std::function<void()> on_room_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BUDGET_H_
