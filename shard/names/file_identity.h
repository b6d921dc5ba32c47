// Distinguishes versions of a file.

#ifndef SHARDFEED_SHARD_NAMES_FILE_IDENTITY_H_
#define SHARDFEED_SHARD_NAMES_FILE_IDENTITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/store.h"

namespace shardfeed {

// Numbers that differ once a file has been replaced or written: device, inode, size and time of a
// local file, size and version of an object. Waits for the store.
//
// NotFound: there is no such regular file or object. Others: those of stat, or of Store::ErrorOf.
absl::StatusOr<std::vector<uint64_t>> FileIdentity(const std::string& path);

// The same of an object that has been read.
std::vector<uint64_t> ObjectIdentity(const ObjectInfo& info);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_NAMES_FILE_IDENTITY_H_
