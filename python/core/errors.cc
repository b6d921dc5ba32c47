#include "python/core/errors.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/remedy.h"
#include "net/block_cache.h"
#include "python/core/gil.h"
#include "python/core/notes.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// Guarded by the GIL.
PyObject* data_loss_error = nullptr;
PyObject* cancelled_error = nullptr;

// Exceptions on their way through the library, by number. A run ends with its first error and other
// exceptions are never retrieved, so the oldest is dropped.
constexpr size_t kMaxKept = 4096;
constexpr std::string_view kMark = " [exception ";
uint64_t next_exception = 0;
std::map<uint64_t, PyObject*>& Kept() {
  static auto* kept = new std::map<uint64_t, PyObject*>();
  return *kept;
}

// Messages may contain file names, which need not be UTF-8.
nb::object Text(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

PyObject* TypeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return PyExc_ValueError;
    case absl::StatusCode::kNotFound:
      return PyExc_FileNotFoundError;
    case absl::StatusCode::kAlreadyExists:
      return PyExc_FileExistsError;
    case absl::StatusCode::kPermissionDenied:
      return PyExc_PermissionError;
    case absl::StatusCode::kOutOfRange:
      return PyExc_IndexError;
    case absl::StatusCode::kDataLoss:
      return data_loss_error;
    case absl::StatusCode::kCancelled:
      return cancelled_error;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return PyExc_OSError;
    default:
      return PyExc_RuntimeError;
  }
}

// The place in a message that refers to an exception.
struct Mark {
  size_t at = 0;
  size_t size = 0;
  uint64_t number = 0;
};

std::optional<Mark> FindMark(std::string_view message) {
  Mark mark;
  mark.at = message.rfind(kMark);
  if (mark.at == std::string_view::npos) return std::nullopt;
  const char* const last = message.data() + message.size();
  const auto [end, error] =
      std::from_chars(message.data() + mark.at + kMark.size(), last, mark.number);
  if (error != std::errc() || end == last || *end != ']') return std::nullopt;
  mark.size = end + 1 - message.data() - mark.at;
  return mark;
}

// Removes the reference to an exception from the message and returns the exception, or null if
// there is none.
PyObject* TakeException(std::string* message) {
  const std::optional<Mark> mark = FindMark(*message);
  if (!mark) return nullptr;
  message->erase(mark->at, mark->size);
  const auto it = Kept().find(mark->number);
  if (it == Kept().end()) return nullptr;
  PyObject* exception = it->second;
  Kept().erase(it);
  return exception;
}

// ---- Interrupts: what signal handlers raise (KeyboardInterrupt) while the library waits for a
// store in the main thread. The wait ends with Cancelled or, if it must go on, with any result.
// Raise turns an error into the exception; without one, Python raises the exception when it
// continues.

// Used by the main thread only. Null: there is none.
PyObject* interrupt = nullptr;

bool IsMainThread() { return ::gettid() == ::getpid(); }

// Raises the interrupt, if there is one. Returns whether it did.
bool SetInterrupt() {
  const nb::object exception = nb::steal(std::exchange(interrupt, nullptr));
  if (!exception.is_valid()) return false;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  return true;
}

void HoldInterrupt(const nb::python_error& raised) {
  Py_XDECREF(std::exchange(interrupt, nb::borrow(raised.value()).release().ptr()));
  Py_AddPendingCall([](void*) { return SetInterrupt() ? -1 : 0; }, nullptr);
}

// Raised by __next__, these exceptions would end the loop as if the data had ended (PEP 479).
bool EndsLoops(nb::handle exception) {
  return PyErr_GivenExceptionMatches(exception.ptr(), PyExc_StopIteration) != 0 ||
         PyErr_GivenExceptionMatches(exception.ptr(), PyExc_StopAsyncIteration) != 0;
}

}  // namespace

bool IsInterrupted() {
  if (!IsMainThread()) return false;
  WithGil([] {
    if (interrupt != nullptr || PyErr_Occurred() != nullptr) return;
    const SignalHandling handling;
    if (PyErr_CheckSignals() == 0) return;
    HoldInterrupt(nb::python_error());
  });
  return interrupt != nullptr;
}

void Raise(const absl::Status& status) {
  const bool interrupted = IsInterrupted();
  if (absl::IsCancelled(status) && interrupted && SetInterrupt()) throw nb::python_error();
  std::string message(status.message());
  nb::object exception = nb::steal(TakeException(&message));
  if (const std::optional<Remedy> remedy = RemedyOf(status)) {
    message += fmt::format("; pass {}={} to {}", remedy->option,
                           remedy->value.empty() ? "True" : remedy->value, remedy->purpose);
  }
  nb::object text = Text(message);
  if (exception.is_valid() && EndsLoops(exception)) {
    nb::object error = nb::borrow(PyExc_RuntimeError)(text);
    PyException_SetCause(error.ptr(), exception.release().ptr());
    PyErr_SetObject(PyExc_RuntimeError, error.ptr());
  } else if (exception.is_valid()) {
    // Python 3.10 has no notes.
    if (nb::hasattr(exception, "add_note")) exception.attr("add_note")(text);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } else {
    PyErr_SetObject(TypeOf(status.code()), text.ptr());
  }
  if (interrupted && interrupt != nullptr) {
    // Left to Python, it would be raised within the caller's handler of the error.
    const nb::python_error error;
    if (!error.value().is(interrupt)) {
      PyException_SetContext(interrupt, nb::borrow(error.value()).release().ptr());
    }
    SetInterrupt();
  }
  throw nb::python_error();
}

std::string TextOf(nb::handle value) {
  const nb::object text = nb::steal(PyObject_Str(value.ptr()));
  if (!text.is_valid()) nb::raise_python_error();
  const nb::object utf8 =
      nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!utf8.is_valid()) nb::raise_python_error();
  return {PyBytes_AsString(utf8.ptr()), static_cast<size_t>(PyBytes_Size(utf8.ptr()))};
}

absl::Status KeepException(nb::python_error exception, nb::handle function) {
  const nb::object value = nb::borrow(exception.value());
  std::string what = TextOf(exception.type().attr("__name__"));
  try {
    const std::string text = TextOf(value);
    if (!text.empty()) what += ": " + text;
  } catch (nb::python_error&) {  // the exception's __str__ fails
  }
  if (EndsLoops(value)) {
    const nb::object name = nb::getattr(function, "name", function.type().attr("__name__"));
    what = fmt::format(
        "the function {} raised {}, which does not end the data; give next() a default, or drop "
        "elements with filter",
        TextOf(name), what);
  }
  if (Kept().size() >= kMaxKept) {
    Py_DECREF(Kept().begin()->second);
    Kept().erase(Kept().begin());
  }
  if (PyException_GetTraceback(value.ptr()) == nullptr && exception.traceback().is_valid()) {
    PyException_SetTraceback(value.ptr(), exception.traceback().ptr());
  }
  Kept()[++next_exception] = value.inc_ref().ptr();
  return absl::AbortedError(fmt::format("{}{}{}]", what, kMark, next_exception));
}

absl::Status KeepInterrupt(nb::python_error exception, nb::handle function) {
  if (!IsMainThread()) return KeepException(std::move(exception), function);
  HoldInterrupt(exception);
  return absl::CancelledError("interrupted");
}

std::optional<std::string> DropException(const absl::Status& status) {
  std::string message(status.message());
  const std::optional<Mark> mark = FindMark(message);
  if (!mark) return message;
  const nb::gil_scoped_acquire gil;
  const auto it = Kept().find(mark->number);
  if (it != Kept().end() && PyErr_GivenExceptionMatches(it->second, PyExc_Exception) == 0) {
    return std::nullopt;
  }
  const nb::object gone = nb::steal(TakeException(&message));
  return message;
}

void Warn(PyObject* category, std::string_view message) {
  const nb::object text = Text(message);
  if (PyErr_WarnFormat(category, 1, "%U", text.ptr()) < 0) throw nb::python_error();
}

void EndIteration() {
  static std::atomic<bool> told = false;
  const std::string trouble = told ? "" : GetBlockCacheStats().trouble;
  if (!trouble.empty() && !told.exchange(true)) {
    Warn(PyExc_RuntimeWarning, fmt::format("the cache was not used for everything: {}", trouble));
  }
  TellNotes();
  throw nb::stop_iteration();
}

void BindErrors(nb::module_& m) {
  WorkStop::SetInterruptCheck(IsInterrupted);
  data_loss_error = PyErr_NewExceptionWithDoc(
      "shardfeed.DataLossError",
      "Data is damaged: a CRC does not match, a record is cut off, a shard is missing.",
      PyExc_RuntimeError, nullptr);
  cancelled_error = PyErr_NewExceptionWithDoc(
      "shardfeed.CancelledError", "The iterator was closed.", PyExc_RuntimeError, nullptr);
  m.attr("DataLossError") = nb::borrow(data_loss_error);
  m.attr("CancelledError") = nb::borrow(cancelled_error);
}

}  // namespace shardfeed::python
