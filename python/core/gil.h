// Waiting without the GIL, also while the interpreter ends.

#ifndef SHARDFEED_PYTHON_CORE_GIL_H_
#define SHARDFEED_PYTHON_CORE_GIL_H_

#include <functional>

#include "nanobind/nanobind.h"

namespace shardfeed::python {

// Lets the GIL go while it lives. A daemon thread whose interpreter is ending stays in the
// destructor for good: Python would end it there by pthread_exit, which unwinds its stack, and C++
// aborts where that meets a destructor.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

// For a thread of the library that nobody waits for (see MakePythonGenerator): calls `work`, which
// must not throw, with the GIL. False, and nothing done: the interpreter is ending.
bool WithGil(const std::function<void()>& work);
// Within that: calls a function of Python's, as PyObject_CallNoArgs does. Where the interpreter
// ends meanwhile, the thread stays here for good.
PyObject* CallOrStay(PyObject* function);

// While a thread makes or ends an iterator, with the GIL. Raises SystemExit in a daemon thread that
// comes too late to make one.
class IteratorChange {
 public:
  explicit IteratorChange(bool makes);
  ~IteratorChange();
  IteratorChange(const IteratorChange&) = delete;
  IteratorChange& operator=(const IteratorChange&) = delete;
};

// For an exit handler of Python, with the GIL: calls `close_all` until no iterator is being made or
// ended elsewhere, for some seconds at most. Afterwards the calling thread alone gets the GIL back.
void CloseAtExit(const std::function<void()>& close_all);

// In a child of fork, in which other threads are not.
void ForgetThreads();

// What a call of a closed iterator raises: ValueError, and SystemExit in daemon threads once the
// interpreter ends. A traceback of theirs would hold stderr while Python flushes it, upon which it
// aborts.
[[noreturn]] void RaiseClosed();

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_GIL_H_
