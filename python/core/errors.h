// Conversion of the library's errors to Python exceptions.

#ifndef SHARDFEED_PYTHON_CORE_ERRORS_H_
#define SHARDFEED_PYTHON_CORE_ERRORS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nanobind/nanobind.h"

namespace shardfeed::python {

// Call everything here with the GIL, except DropException and IsInterrupted.

// Raises the exception for the status code: ValueError for InvalidArgument, FileNotFoundError for
// NotFound, DataLossError for DataLoss and so on. If an exception of the user's function caused the
// error, raises that exception with the error's message as a note. If a signal has interrupted a
// wait for a store, raises what its handler raised (KeyboardInterrupt); another error that the call
// ended with is its context. If an option remedies the error, the message ends with it: "...; pass
// overwrite=True to replace it".
[[noreturn]] void Raise(const absl::Status& status);
inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}
template <typename T>
T Check(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

// Whether Raise would raise what a handler of signals has raised. Runs the handlers of signals that
// have come. May be called without the GIL.
bool IsInterrupted();

// Turns an exception of the user's `function` into an error that Raise turns back into the
// exception. A StopIteration, which would end the caller's loop, becomes the cause of a
// RuntimeError. `exception` is empty afterwards.
absl::Status KeepException(nanobind::python_error exception, nanobind::handle function);

// The same for an exception that ends the program rather than tells of an error, such as
// KeyboardInterrupt. In the main thread it is raised even if the error goes nowhere.
absl::Status KeepInterrupt(nanobind::python_error exception, nanobind::handle function);

// Returns str(value) in UTF-8, with lone surrogates escaped. Throws python_error if str() raises.
std::string TextOf(nanobind::handle value);

// Returns the error's message, and drops the exception that caused it, if any. Keeps an exception
// that must not be ignored, such as SystemExit, and returns nullopt. Call without the GIL.
std::optional<std::string> DropException(const absl::Status& status);

// Warns in Python; the message may contain file names, which need not be UTF-8. Throws python_error
// if filters make the warning an exception.
void Warn(PyObject* category, std::string_view message);

// Raises StopIteration. Before that, warns once in each process if a cache on disk could not keep
// blocks, which is no error of a run, and calls TellNotes.
[[noreturn]] void EndIteration();

void BindErrors(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_ERRORS_H_
