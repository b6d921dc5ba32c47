// Tells a thread whether its work is still needed.

#ifndef SHARDFEED_BASE_WORK_STOP_H_
#define SHARDFEED_BASE_WORK_STOP_H_

#include <chrono>
#include <future>
#include <stop_token>
#include <thread>

#include "base/mutex.h"

namespace shardfeed {

// While it exists, Token() returns `token` on the thread that created it. Code that works on many
// rows, or waits, checks it in between: user functions may take long, and stores may not answer; a
// run that is abandoned waits for at most one call of a function. With a token that never stops,
// what is done meanwhile is done to its end, such as putting a dataset into place.
class WorkStop {
 public:
  explicit WorkStop(std::stop_token token);
  ~WorkStop();
  WorkStop(const WorkStop&) = delete;
  WorkStop& operator=(const WorkStop&) = delete;

  // The token of the innermost WorkStop on this thread, or one that never stops.
  static const std::stop_token& Token();
  // Whether the token was asked to stop, or without a WorkStop on this thread, what the check of
  // interrupts says. Threads that wait ask this every kInterval, with no lock held.
  static bool Requested();
  static constexpr std::chrono::milliseconds kInterval{50};

  // Sets the function that says whether the user has interrupted what the calling thread does. It
  // may run signal handlers, which may use the library: within a SignalHandling.
  static void SetInterruptCheck(bool (*check)());

 private:
  const std::stop_token token_;
  const std::stop_token* const outer_;
};

// While it exists, signal handlers run on the thread that created it, and what that thread did
// before does not go on: others must not wait for it, since a handler may wait for them. One thread
// at most runs handlers.
class SignalHandling {
 public:
  SignalHandling();
  ~SignalHandling();
  SignalHandling(const SignalHandling&) = delete;
  SignalHandling& operator=(const SignalHandling&) = delete;

  // Whether handlers run on `thread`.
  static bool Pauses(std::thread::id thread);

 private:
  const std::thread::id outer_;
};

// Waits until it is `ready`, which is called with the lock held, or the work of this thread is not
// needed any more. Returns whether it is ready.
template <typename Ready>
bool AwaitWanted(CondVar& changed, MutexLock& lock, Ready ready) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  while (!changed.WaitFor(lock, WorkStop::kInterval, ready)) {
    lock.Unlock();
    const bool unwanted = WorkStop::Requested();
    lock.Lock();
    if (unwanted) return ready();
  }
  return true;
}

// The same for the result of work that another thread does.
template <typename Result>
bool AwaitWanted(const std::future<Result>& result) {
  while (result.wait_for(WorkStop::kInterval) != std::future_status::ready) {
    if (!WorkStop::Requested()) continue;
    return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  return true;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_WORK_STOP_H_
