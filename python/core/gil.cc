#include "python/core/gil.h"

#include <cxxabi.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace shardfeed::python {
namespace {

std::atomic<bool> exit_begun = false;
std::atomic<bool> exit_ended = false;
std::atomic<std::thread::id> exiting_thread;
// Number of threads that wait for the GIL or are about to.
std::atomic<int> returning = 0;
std::atomic<int> changing = 0;

// How often CloseAtExit checks, at intervals of at least a millisecond.
constexpr int kPatience = 1000;

thread_local int function_calls = 0;

// Whether this is a daemon thread after the exit has begun: by then all threads but the exiting one
// are.
bool ComesTooLate() { return exit_begun && std::this_thread::get_id() != exiting_thread; }

void LetOthersRun() {
  const nanobind::gil_scoped_release release;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

[[noreturn]] void StayForGood() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

[[noreturn]] void RaiseSystemExit() {
  PyErr_SetNone(PyExc_SystemExit);
  throw nanobind::python_error();
}

}  // namespace

GilRelease::~GilRelease() {
  ++returning;
  if (exit_ended && ComesTooLate()) {
    --returning;
    StayForGood();
  }
  PyEval_RestoreThread(state_);
  --returning;
}

bool WithGil(const std::function<void()>& work) {
  ++returning;
  if (exit_ended) {
    --returning;
    return false;
  }
  const PyGILState_STATE state = PyGILState_Ensure();
  --returning;
  work();
  PyGILState_Release(state);
  return true;
}

PyObject* CallOrStay(PyObject* function) {
  try {
    return PyObject_CallNoArgs(function);
  } catch (const abi::__forced_unwind&) {
    // Python ends a thread that wakes up after the interpreter has ended, with pthread_exit.
    StayForGood();
  }
}

FunctionCall::FunctionCall() { ++function_calls; }
FunctionCall::~FunctionCall() { --function_calls; }
bool FunctionCall::Inside() { return function_calls > 0; }

IteratorChange::IteratorChange(bool makes) {
  if (makes && ComesTooLate()) RaiseSystemExit();
  ++changing;
}

IteratorChange::~IteratorChange() { --changing; }

void CloseAtExit(const std::function<void()>& close_all) {
  exiting_thread = std::this_thread::get_id();
  exit_begun = true;
  close_all();
  // Making an iterator may take minutes if there are no indexes; the exit does not wait for that.
  for (int i = 0; changing > 0 && i < kPatience; ++i) {
    LetOthersRun();
    close_all();
  }
  exit_ended = true;
  // Let the threads that have not seen exit_ended take the GIL now.
  while (returning > 0) LetOthersRun();
}

void ForgetThreads() {
  returning = 0;
  changing = 0;
}

void RaiseClosed() {
  if (ComesTooLate()) RaiseSystemExit();
  throw nanobind::value_error("the iterator is closed");
}

}  // namespace shardfeed::python
