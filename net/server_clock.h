// The time of a server's clock, by which it judges the signatures of requests.

#ifndef SHARDFEED_NET_SERVER_CLOCK_H_
#define SHARDFEED_NET_SERVER_CLOCK_H_

#include <cstdlib>
#include <ctime>

#include "base/mutex.h"

namespace shardfeed {

// This machine's clock, until the server's is known. Thread-safe. In seconds.
class ServerClock {
 public:
  std::time_t Now() const {
    MutexLock lock(mutex_);
    return std::time(nullptr) + skew_;
  }

  // Takes over the server's time. False, and nothing changes, if it differs from Now() by less
  // than `tolerance`.
  bool Set(std::time_t now, std::time_t tolerance) {
    const std::time_t skew = now - std::time(nullptr);
    MutexLock lock(mutex_);
    if (std::abs(skew - skew_) < tolerance) return false;
    skew_ = skew;
    return true;
  }

 private:
  mutable Mutex mutex_;
  std::time_t skew_ ABSL_GUARDED_BY(mutex_) = 0;  // the server's clock less this machine's
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_SERVER_CLOCK_H_
