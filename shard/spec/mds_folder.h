// Folders that MosaicML Streaming wrote: the index.json in them lists their shards.

#ifndef SHARDFEED_SHARD_SPEC_MDS_FOLDER_H_
#define SHARDFEED_SHARD_SPEC_MDS_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/spec/folder_listing.h"
#include "shardfeed/spec.h"

namespace shardfeed {

inline constexpr char kMdsFolderIndex[] = "index.json";

// What the index.json says about a shard.
struct MdsListed {
  std::string name;      // relative to the folder
  std::string zip_name;  // name of the compressed shard; empty: there is none
  uint64_t bytes = 0;
  uint64_t samples = 0;
};

// Both functions are thread-safe.

// Returns what the index.json in the folder lists, in its order; nullopt if that is not MDS shards.
// DataLoss: it is broken, or a name in it leads outside the folder. Others: as ReadWhole.
absl::StatusOr<std::optional<std::vector<MdsListed>>> ReadMdsFolder(const std::string& directory);

// Returns the shards that the index.json in the folder lists; nullopt as above.
// DataLoss: also if a shard is missing or listed twice, or if the index.json is broken beside files
// that are named as MDS shards. Others: as above.
absl::StatusOr<std::optional<ShardSet>> ResolveMdsFolder(const std::string& directory,
                                                         const Folder& folder);

// Whether the index.json in the folder lists MDS shards, at least one of which exists.
bool HoldsMdsShards(const std::string& directory, const Folder& folder);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_MDS_FOLDER_H_
