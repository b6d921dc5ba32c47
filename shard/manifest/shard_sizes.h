// Whether the shards of a dataset are what its manifest says, without reading them.

#ifndef SHARDFEED_SHARD_MANIFEST_SHARD_SIZES_H_
#define SHARDFEED_SHARD_MANIFEST_SHARD_SIZES_H_

#include <string>

#include "absl/status/status.h"
#include "shard/manifest/manifest.h"

namespace shardfeed {

// DataLoss: a shard of a dataset in this local folder is missing, or has another size. Objects in
// stores are not checked, which would take a request for each.
absl::Status CheckShardSizes(const std::string& directory, const Manifest& manifest);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_MANIFEST_SHARD_SIZES_H_
