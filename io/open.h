// Opens files for reading and writing, and refuses everything else that may have a name: opening a
// FIFO would wait for its other end, and opening a device may have any effect.

#ifndef SHARDFEED_IO_OPEN_H_
#define SHARDFEED_IO_OPEN_H_

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// Opens `path` for reading and returns the descriptor, which the caller must close. Stores the
// result of fstat in `info`.
//
// FailedPrecondition: `path` is a folder, a FIFO, a socket or a character device; a block device
// counts as a file. For others see ErrnoStatus.
absl::StatusOr<int> OpenToRead(const std::string& path, struct stat* info);

// Creates `path`, or truncates an existing file, and returns the descriptor for writing, which the
// caller must close. Fails as OpenToRead does, and with FailedPrecondition for a block device.
absl::StatusOr<int> OpenToWrite(const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_OPEN_H_
