// Threads that report failures as statuses: an exception that escapes a thread would terminate the
// process.

#ifndef SHARDFEED_IO_THREAD_H_
#define SHARDFEED_IO_THREAD_H_

#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// Statuses for exceptions: ResourceExhausted if memory ran out or no thread could be started,
// Internal for all others.
absl::Status OutOfMemory();
absl::Status NoThread(const std::system_error& error);
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

// Starts a thread. ResourceExhausted: the system cannot start another one, or has no memory for it;
// it does not throw, lest threads that the caller has started are never joined. `work` must not
// throw either: see CatchAll.
template <typename Work>
absl::StatusOr<std::thread> StartThread(Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::system_error& error) {
    return NoThread(error);
  }
}

}  // namespace shardfeed

#endif  // SHARDFEED_IO_THREAD_H_
