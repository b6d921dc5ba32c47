// A bound on memory that several parties share.

#ifndef SHARDFEED_IO_BUDGET_H_
#define SHARDFEED_IO_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/mutex.h"

namespace shardfeed {

// Counts bytes that are in use against a limit. Thread safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // False, and nothing reserved, when the limit would be exceeded.
  bool TryReserve(uint64_t bytes);
  // Reserves whatever the limit: for the one request that all others wait for.
  void ForceReserve(uint64_t bytes);
  void Release(uint64_t bytes);

  // `on_room` is called by the first Release after each call of NotifyOnRelease, on its thread.
  // Once SetOnRoom(nullptr) has returned, the one before is not called any more.
  void SetOnRoom(std::function<void()> on_room);
  void NotifyOnRelease() { notify_.store(true); }

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // The most that was in use at once.
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
