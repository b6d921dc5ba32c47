#include "io/thread.h"

#include <system_error>

namespace shardfeed {
namespace {

// A status keeps its message on the heap, where there may be no room left: this one is made early.
const absl::Status& OutOfMemoryStatus() {
  static const absl::Status* const status =
      new absl::Status(absl::StatusCode::kResourceExhausted,
                       "out of memory; fewer threads or a smaller budget need less");
  return *status;
}
[[maybe_unused]] const absl::Status& made_early = OutOfMemoryStatus();

}  // namespace

absl::Status OutOfMemory() { return OutOfMemoryStatus(); }

absl::Status StatusOf(const std::exception& error) {
  return absl::InternalError(std::string("unexpected error: ") + error.what());
}

absl::StatusOr<std::thread> StartThread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        std::string("cannot start a thread: ") + error.code().message() +
        "; the limits of processes (ulimit -u) and memory (ulimit -v) bound their number");
  }
}

}  // namespace shardfeed
