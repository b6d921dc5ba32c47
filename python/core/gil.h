// Waiting without the GIL, also while the interpreter ends.

#ifndef SHARDFEED_PYTHON_CORE_GIL_H_
#define SHARDFEED_PYTHON_CORE_GIL_H_

#include "nanobind/nanobind.h"

namespace shardfeed::python {

// Lets the GIL go while it lives. A daemon thread whose interpreter has ended meanwhile stays in
// the destructor for good: Python would end it there by pthread_exit, which unwinds its stack, and
// C++ aborts where that meets a destructor.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

// What an exit handler of Python calls before and after it closes all iterators, with the GIL.
void BeginExit();
// From here on the calling thread alone gets the GIL back.
void EndExit();

// In a child of fork, in which threads that waited are not.
void ForgetWaitingThreads();

// What a call of a closed iterator raises: ValueError, and SystemExit from BeginExit on. Only
// daemon threads are left then, and a traceback of theirs would hold stderr while Python flushes
// it, upon which it aborts.
[[noreturn]] void RaiseClosed();

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_GIL_H_
