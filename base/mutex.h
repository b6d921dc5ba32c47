// A mutex, its lock and its condition variables, annotated so that clang checks who holds what.
//
// They are those of the standard library, and cost what these cost; std::mutex itself has no
// annotations in libstdc++. Members that a mutex guards are declared with ABSL_GUARDED_BY,
// functions that are called with it held with ABSL_EXCLUSIVE_LOCKS_REQUIRED; `scripts/lint`
// compiles all of it with -Wthread-safety as an error.

#ifndef SHARDFEED_BASE_MUTEX_H_
#define SHARDFEED_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace shardfeed {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex for as long as it lives, except between Unlock and Lock. Not thread-safe.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }

 private:
  friend class CondVar;
  friend class StopCondVar;
  std::unique_lock<std::mutex> lock_;
};

// The predicates of waiting are called with the lock held, and annotated as such:
//   ready_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; });
class CondVar {
 public:
  template <typename Predicate>
  void Wait(MutexLock& lock, Predicate ready) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    condition_.wait(lock.lock_, std::move(ready));
  }
  // Returns false if it is not ready after that time.
  template <typename Duration, typename Predicate>
  bool WaitFor(MutexLock& lock, Duration most, Predicate ready) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return condition_.wait_for(lock.lock_, most, std::move(ready));
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

// One whose waiting a stop token ends, too. It costs more than a CondVar.
class StopCondVar {
 public:
  void Wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  // False, here and below: the time has passed or the stop was asked for, and it is still not
  // ready.
  template <typename Duration, typename Predicate>
  bool WaitFor(MutexLock& lock, Duration most, Predicate ready) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return condition_.wait_for(lock.lock_, most, std::move(ready));
  }
  template <typename Duration, typename Predicate>
  bool WaitFor(MutexLock& lock, std::stop_token stop, Duration most,
               Predicate ready) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return condition_.wait_for(lock.lock_, std::move(stop), most, std::move(ready));
  }
  template <typename Time, typename Predicate>
  bool WaitUntil(MutexLock& lock, std::stop_token stop, Time deadline,
                 Predicate ready) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return condition_.wait_until(lock.lock_, std::move(stop), deadline, std::move(ready));
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_MUTEX_H_
