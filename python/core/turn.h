// Turns of threads at an object.

#ifndef SHARDFEED_PYTHON_CORE_TURN_H_
#define SHARDFEED_PYTHON_CORE_TURN_H_

#include <chrono>
#include <mutex>

#include "nanobind/nanobind.h"
#include "python/core/gil.h"

namespace shardfeed::python {

// How often a thread that waits looks for signals.
constexpr auto kSignalInterval = std::chrono::milliseconds(50);

// One thread at a time uses an iterator; others wait without the GIL. Raises what a signal handler
// raises.
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
