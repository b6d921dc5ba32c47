// Functions written in Python that give credentials for stores.

#include "shardfeed/credentials.h"

#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "nanobind/nanobind.h"
#include "nanobind/stl/optional.h"
#include "nanobind/stl/string.h"
#include "python/core/errors.h"
#include "python/core/gil.h"
#include "python/core/shared_object.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// What the package's function gives: (access_key_id, secret_access_key, session_token, token,
// expires or None), or a str, which says why not. With the GIL.
absl::StatusOr<Credentials> Take(nb::handle given, const std::string& source) {
  if (nb::isinstance<nb::str>(given)) {
    return absl::UnavailableError(fmt::format("{} {}", source, nb::cast<std::string>(given)));
  }
  const auto parts = nb::cast<nb::tuple>(given);
  Credentials credentials;
  credentials.access_key_id = nb::cast<std::string>(parts[0]);
  credentials.secret_access_key = nb::cast<std::string>(parts[1]);
  credentials.session_token = nb::cast<std::string>(parts[2]);
  credentials.token = nb::cast<std::string>(parts[3]);
  if (!parts[4].is_none()) credentials.expires = nb::cast<int64_t>(parts[4]);
  credentials.source = source;
  return credentials;
}

// Called by the thread that uses a bucket first, which may have the GIL, and by threads that nobody
// waits for.
absl::StatusOr<Credentials> Call(PyObject* function, const std::string& source) {
  // The package's function raises no Exception. What else it raises (KeyboardInterrupt, SystemExit)
  // is for the caller, but must not end a thread that nobody waits for.
  const bool has_caller = PyGILState_GetThisThreadState() != nullptr;
  absl::StatusOr<Credentials> result =
      absl::CancelledError(fmt::format("{} was not called: the interpreter is ending", source));
  WithGil([&] {
    DropObjects();
    try {
      const nb::object given = nb::steal(CallOrStay(function));
      if (!given.is_valid()) nb::raise_python_error();
      result = Take(given, source);
    } catch (nb::python_error& e) {
      // The text of an exception may hold secrets.
      if (has_caller && !e.matches(PyExc_Exception)) {
        result = KeepInterrupt(std::move(e), function);
      } else {
        result = absl::UnavailableError(
            fmt::format("{} raised {}", source, TextOf(e.type().attr("__name__"))));
      }
    } catch (const std::exception&) {
      result =
          absl::InternalError(fmt::format("{} returned something other than credentials", source));
    }
  });
  return result;
}

}  // namespace

void BindCredentials(nb::module_& m);

void BindCredentials(nb::module_& m) {
  m.def(
      "set_credentials",
      [](const std::string& url, nb::object function, const std::string& source) {
        if (function.is_none()) return Check(SetCredentials(url, nullptr));
        Check(SetCredentials(url, [shared = ShareObject(std::move(function)), source] {
          return Call(shared.get(), source);
        }));
      },
      nb::arg("url"), nb::arg("function").none(), nb::arg("source"));
}

}  // namespace shardfeed::python
