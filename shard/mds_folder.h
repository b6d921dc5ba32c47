// Folders that MosaicML Streaming wrote: the index.json in them lists their shards.

#ifndef SHARDFEED_SHARD_MDS_FOLDER_H_
#define SHARDFEED_SHARD_MDS_FOLDER_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "shard/folder_listing.h"
#include "shardfeed/spec.h"

namespace shardfeed {

inline constexpr char kMdsFolderIndex[] = "index.json";

// Returns the MDS shards of a folder that has an index.json, in its order; nullopt if it lists
// none. Thread-safe. DataLoss: it is broken, a name in it leads outside the folder, or a shard is
// missing. Others: as ReadWhole.
absl::StatusOr<std::optional<ShardSet>> ResolveMdsFolder(const std::string& directory,
                                                         const Folder& folder);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_MDS_FOLDER_H_
