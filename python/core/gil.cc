#include "python/core/gil.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace shardfeed::python {
namespace {

std::atomic<bool> exit_begun = false;
std::atomic<bool> exit_ended = false;
std::atomic<std::thread::id> exiting_thread;
// Threads that wait for the GIL, or are about to.
std::atomic<int> returning = 0;

}  // namespace

GilRelease::~GilRelease() {
  ++returning;
  if (exit_ended && std::this_thread::get_id() != exiting_thread) {
    --returning;
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(state_);
  --returning;
}

void BeginExit() { exit_begun = true; }

void EndExit() {
  exiting_thread = std::this_thread::get_id();
  exit_ended = true;
  // Who has not seen that gets it now.
  while (returning > 0) {
    nanobind::gil_scoped_release release;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void ForgetWaitingThreads() { returning = 0; }

void RaiseClosed() {
  if (!exit_begun) throw nanobind::value_error("the iterator is closed");
  PyErr_SetNone(PyExc_SystemExit);
  throw nanobind::python_error();
}

}  // namespace shardfeed::python
