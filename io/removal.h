// Removes files and folders.

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

// Removes a file, or a folder with everything in it, of which links are removed and not followed. A
// path that does not exist is no error. What other processes create in the folder meanwhile is
// removed too. It does not throw, so destructors may call it.
absl::Status RemoveTree(const std::string& path);

// Removes files and folders like RemoveTree, on several threads. After an error the others are
// still removed; the first error is returned. It does not throw either.
absl::Status RemoveAll(const std::vector<std::string>& paths);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_REMOVAL_H_
