// Opens files for reading and writing, and nothing else that may have a name: to open a FIFO waits
// for its other end, and to open a device may do anything.

#ifndef SHARDFEED_IO_OPEN_H_
#define SHARDFEED_IO_OPEN_H_

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// Opens `path` for reading and returns the descriptor, which the caller closes. `info` is what
// fstat says of it.
//
// FailedPrecondition: a folder, a FIFO, a socket or a character device; a block device is a file.
// Others: see ErrnoStatus.
absl::StatusOr<int> OpenToRead(const std::string& path, struct stat* info);

// Creates `path`, or empties what has that name, and returns the descriptor for writing, which the
// caller closes. Errors as OpenToRead, and FailedPrecondition for a block device.
absl::StatusOr<int> OpenToWrite(const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_OPEN_H_
