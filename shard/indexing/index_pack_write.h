// Writes the index pack of a dataset whose shards have indexes already.

#ifndef SHARDFEED_SHARD_INDEXING_INDEX_PACK_WRITE_H_
#define SHARDFEED_SHARD_INDEXING_INDEX_PACK_WRITE_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// Writes the pack of a set from the indexes beside its shards, in one step; nothing if the set has
// none (IndexPackNameOf). Thread-safe; the last of several writers wins.
//
// Aborted: the dataset was replaced meanwhile. Cancelled: `stop` was requested. Others: those of
// PackIndexes, and of writing a file or an object.
absl::Status WriteIndexPack(const ShardSet& set, const std::stop_token& stop);

// Writes the packs of the datasets that the files at `paths` are shards of, where a pack has other
// indexes for them than are beside them. Datasets without a pack get none. Errors: as
// WriteIndexPack.
absl::Status RefreshIndexPacks(const std::vector<std::string>& paths, const std::stop_token& stop);

// Brings the packs up to date after the indexes of `set` were written: its own, and if it is not
// exactly what a stem@N names, those that RefreshIndexPacks finds.
absl::Status UpdateIndexPacks(const ShardSet& set, const std::stop_token& stop);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEXING_INDEX_PACK_WRITE_H_
