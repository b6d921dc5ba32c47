// Removes many files.

#ifndef SHARDFEED_IO_REMOVAL_H_
#define SHARDFEED_IO_REMOVAL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// The number of threads that should remove this number of files. A file system that tells its disk
// which blocks are free waits for the disk at each file, so several threads take a fraction of the
// time of one.
int RemovalThreads(size_t count);

// Removes files, and folders with everything in them. Paths that do not exist are skipped. After an
// error the others are still removed; the first error is returned.
absl::Status RemoveAll(const std::vector<std::string>& paths);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_REMOVAL_H_
