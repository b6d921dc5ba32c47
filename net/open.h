// Opens files and objects by the name that a user gives: a path or a URL.

#ifndef SHARDFEED_NET_OPEN_H_
#define SHARDFEED_NET_OPEN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/file.h"

namespace shardfeed {

// Whether the name is a URL, of any scheme, rather than a path.
bool IsRemote(std::string_view name);

// Opens a file or an object; for an object, one request finds out its size and version. Errors:
// those of File::Open and of StatObject.
absl::StatusOr<std::shared_ptr<File>> OpenFile(const std::string& name);

// Calls ReadFile or ReadObject.
absl::StatusOr<std::string> ReadWhole(const std::string& name, uint64_t max_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_OPEN_H_
