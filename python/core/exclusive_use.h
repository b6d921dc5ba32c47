// Refuses a second user of an object whose methods release the GIL.

#ifndef SHARDFEED_PYTHON_CORE_EXCLUSIVE_USE_H_
#define SHARDFEED_PYTHON_CORE_EXCLUSIVE_USE_H_

#include <atomic>
#include <stdexcept>

#include "fmt/format.h"

namespace shardfeed::python {

// Held by a method while it uses an object, whose flag it sets. The constructor throws what becomes
// a RuntimeError if another thread uses the object, or a caller of this method does.
class ExclusiveUse {
 public:
  ExclusiveUse(std::atomic<bool>& used, const char* what) : used_(used) {
    if (!used_.exchange(true)) return;
    throw std::runtime_error(
        fmt::format("{} is in use by another thread, or by a call that has not returned: one "
                    "thread at a time may use it",
                    what));
  }
  ~ExclusiveUse() { used_ = false; }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  std::atomic<bool>& used_;
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_EXCLUSIVE_USE_H_
