// Threads that report failures as statuses: an exception that escapes a thread would terminate the
// process.

#ifndef SHARDFEED_IO_THREAD_H_
#define SHARDFEED_IO_THREAD_H_

#include <exception>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// Starts a thread. ResourceExhausted: the system cannot start another one. `work` must not throw:
// see CatchAll.
absl::StatusOr<std::thread> StartThread(std::function<void()> work);

// Statuses for exceptions: ResourceExhausted if memory ran out, Internal for all others.
absl::Status OutOfMemory();
absl::Status StatusOf(const std::exception& error);

// Calls `work`, which returns an absl::Status or nothing, and converts an exception to a status.
template <typename Work>
absl::Status CatchAll(Work&& work) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      std::forward<Work>(work)();
      return absl::OkStatus();
    } else {
      return std::forward<Work>(work)();
    }
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception& error) {
    return StatusOf(error);
  }
}

}  // namespace shardfeed

#endif  // SHARDFEED_IO_THREAD_H_
