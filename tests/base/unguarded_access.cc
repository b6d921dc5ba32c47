// Uses a member without the mutex that guards it. scripts/lint expects clang to refuse this file,
// and so proves that the analysis is on and sees through base/mutex.h.

#include "base/mutex.h"

namespace shardfeed {

class Counter {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
  }
  int count() const { return count_; }

 private:
  mutable Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

int Count() {
  Counter counter;
  counter.Add();
  return counter.count();
}

}  // namespace shardfeed
