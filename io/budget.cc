#include "io/budget.h"

#include <utility>

#include "base/mutex.h"

namespace shardfeed {

bool ByteBudget::TryReserve(uint64_t bytes) {
  uint64_t used = used_.load();
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  NotePeak(used + bytes);
  return true;
}

void ByteBudget::ForceReserve(uint64_t bytes) { NotePeak(used_.fetch_add(bytes) + bytes); }

void ByteBudget::Release(uint64_t bytes) {
  used_.fetch_sub(bytes);
  if (!notify_.load() || !notify_.exchange(false)) return;
  MutexLock lock(mutex_);
  if (on_room_) on_room_();
}

void ByteBudget::SetOnRoom(std::function<void()> on_room) {
  MutexLock lock(mutex_);
  on_room_ = std::move(on_room);
}

void ByteBudget::NotePeak(uint64_t used) {
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (used > peak && !peak_.compare_exchange_weak(peak, used)) {
  }
}

}  // namespace shardfeed
