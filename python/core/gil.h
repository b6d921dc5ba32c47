// Waiting without the GIL, even while the interpreter ends.

#ifndef SHARDFEED_PYTHON_CORE_GIL_H_
#define SHARDFEED_PYTHON_CORE_GIL_H_

#include <functional>

#include "nanobind/nanobind.h"

namespace shardfeed::python {

// Releases the GIL for its lifetime. If the interpreter is ending, a daemon thread blocks forever
// in the destructor: Python would end it there with pthread_exit, which unwinds its stack, and C++
// aborts if that passes a destructor.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

// Returns what `work` returns, which is called without the GIL.
template <typename Work>
auto WithoutGil(Work work) {
  const GilRelease release;
  return work();
}

// For a thread of the library that nobody waits for (see MakePythonGenerator): calls `work`, which
// must not throw, with the GIL. Returns false without calling it if the interpreter is ending.
bool WithGil(const std::function<void()>& work);
// For use within `work`: calls a Python function, as PyObject_CallNoArgs does. If the interpreter
// ends meanwhile, the thread blocks here forever.
PyObject* CallOrStay(PyObject* function);

// Marks, for its lifetime, that a thread of a run calls one of the user's functions.
class FunctionCall {
 public:
  FunctionCall();
  ~FunctionCall();
  FunctionCall(const FunctionCall&) = delete;
  FunctionCall& operator=(const FunctionCall&) = delete;

  // Whether this thread is in such a call.
  static bool Inside();
};

// Marks, for its lifetime and with the GIL, that a thread makes or ends an iterator. Raises
// SystemExit in a daemon thread that is too late to make one.
class IteratorChange {
 public:
  explicit IteratorChange(bool makes);
  ~IteratorChange();
  IteratorChange(const IteratorChange&) = delete;
  IteratorChange& operator=(const IteratorChange&) = delete;
};

// For an exit handler of Python, with the GIL: calls `close_all` until no iterator is being made or
// ended elsewhere, for at most a few seconds. Afterwards only the calling thread can take the GIL
// again.
void CloseAtExit(const std::function<void()>& close_all);

// Call in a child after fork, where other threads do not exist.
void ForgetThreads();

// Raises the error of a call of a closed iterator: ValueError, or SystemExit in daemon threads once
// the interpreter ends. Printing a traceback there would hold stderr while Python flushes it, and
// Python would abort.
[[noreturn]] void RaiseClosed();

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_GIL_H_
