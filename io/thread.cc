#include "io/thread.h"

#include <string>

namespace shardfeed {
namespace {

// A status keeps its message on the heap, which may be exhausted: this one is created at start-up.
const absl::Status& OutOfMemoryStatus() {
  static const absl::Status* const status = new absl::Status(
      absl::StatusCode::kResourceExhausted, "out of memory; use fewer threads or a smaller budget");
  return *status;
}
[[maybe_unused]] const absl::Status& made_early = OutOfMemoryStatus();

}  // namespace

absl::Status OutOfMemory() { return OutOfMemoryStatus(); }

absl::Status StatusOf(const std::exception& error) {
  try {
    return absl::InternalError(std::string("unexpected error: ") + error.what());
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

absl::Status NoThread(const std::system_error& error) {
  return CatchAll([&error] {
    return absl::ResourceExhaustedError(
        std::string("cannot start a thread: ") + error.code().message() +
        "; use fewer threads, or raise the limits of processes (ulimit -u) and memory (ulimit -v)");
  });
}

}  // namespace shardfeed
