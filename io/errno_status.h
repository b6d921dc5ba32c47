// Failed system calls as absl::Status.

#ifndef SHARDFEED_IO_ERRNO_STATUS_H_
#define SHARDFEED_IO_ERRNO_STATUS_H_

#include <string_view>

#include "absl/status/status.h"

namespace shardfeed {

// Returns an error with the message "PATH: cannot WHAT: REASON", where REASON is the system's text
// for `error`, followed by a remedy if there is one (for example "free some space" for a full
// disk).
//
// NotFound: no such file. PermissionDenied: not allowed. AlreadyExists: the name is taken.
// ResourceExhausted: disk full, quota, file size limit, too many open files or no memory.
// FailedPrecondition: a folder where a file is expected, or the reverse. Unavailable: all others.
absl::Status ErrnoStatus(int error, std::string_view path, std::string_view what);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_ERRNO_STATUS_H_
