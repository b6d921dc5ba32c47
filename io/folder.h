// Lists folders.

#ifndef SHARDFEED_IO_FOLDER_H_
#define SHARDFEED_IO_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// Returns the names in a folder except "." and "..", in the file system's order. An error names
// the folder. std::filesystem's iterators are not used: libstdc++ ends the process if memory runs
// out in one that reports an error_code.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path);

// The same for the folder that is open as `fd`, whose position is not moved; `path` is for errors.
absl::StatusOr<std::vector<std::string>> NamesIn(int fd, const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_FOLDER_H_
