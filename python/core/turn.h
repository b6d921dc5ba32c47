// Exclusive use of an object by one Python thread at a time.

#ifndef SHARDFEED_PYTHON_CORE_TURN_H_
#define SHARDFEED_PYTHON_CORE_TURN_H_

#include <chrono>
#include <mutex>

#include "nanobind/nanobind.h"
#include "python/core/gil.h"

namespace shardfeed::python {

// How often a waiting thread checks for signals.
constexpr auto kSignalInterval = std::chrono::milliseconds(50);

// Locks an iterator for one thread; other threads wait without the GIL. Raises what a signal
// handler raises.
class Turn {
 public:
  explicit Turn(std::timed_mutex& mutex) : mutex_(mutex) {
    while (true) {
      {
        const GilRelease release;
        if (mutex_.try_lock_for(kSignalInterval)) return;
      }
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    }
  }
  ~Turn() { mutex_.unlock(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::timed_mutex& mutex_;
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_TURN_H_
