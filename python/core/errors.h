// Errors of the library as exceptions of Python.

#ifndef SHARDFEED_PYTHON_CORE_ERRORS_H_
#define SHARDFEED_PYTHON_CORE_ERRORS_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nanobind/nanobind.h"

namespace shardfeed::python {

// All with the GIL.

// Raises what fits the code: ValueError for InvalidArgument, FileNotFoundError for NotFound,
// DataLossError for DataLoss ... An error that an exception of the user's function led to is that
// exception, with the error's message as a note. Where an option helps, the message ends by naming
// it: "...; pass overwrite=True to replace it".
[[noreturn]] void Raise(const absl::Status& status);
inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}
template <typename T>
T Check(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

// The error that an exception of the user's `function` becomes, which Raise makes the exception
// again: a StopIteration the cause of a RuntimeError, for it would end the caller's loop.
// `exception` is empty afterwards.
absl::Status KeepException(nanobind::python_error exception, nanobind::handle function);

// Without the GIL: the error's message. The exception that led to it, if there is one, goes; where
// it is one that is not to be passed over, such as SystemExit, it stays, and there is no message.
std::optional<std::string> DropException(const absl::Status& status);

// Raises StopIteration. What a cache on disk could not keep, which ends no run, is told before, once
// a process, by a RuntimeWarning.
[[noreturn]] void EndIteration();

void BindErrors(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_ERRORS_H_
