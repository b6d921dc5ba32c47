// Builds indexes for shards that were written without one.

#ifndef SHARDFEED_SHARD_INDEXING_INDEX_BUILD_H_
#define SHARDFEED_SHARD_INDEXING_INDEX_BUILD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/index/index.h"
#include "shardfeed/index.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

// Receives the records of a shard, block by block in order.
using RecordsFn = std::function<absl::Status(const RecordBlock& block)>;

// Walks the headers of the shard at `path` and adds its frames and restart points to `builder`,
// which it leaves to the caller to finish. With `on_records`, all records are read and checked
// instead, and are passed to it; its errors end the walk.
//
// DataLoss: damage that keeps records from being told apart.
absl::StatusOr<IndexSummary> WalkShard(const std::string& path, const IndexBuildOptions& options,
                                       IndexBuilder* builder,
                                       const RecordsFn& on_records = nullptr);

// Builds the index that IndexShard writes, but in memory and without length columns.
absl::StatusOr<std::shared_ptr<const ShardIndex>> BuildIndex(const std::string& path,
                                                             const IndexBuildOptions& options);

// DataLoss: the shard is shorter than its index says and ends between two of the records listed
// there, so that a rebuilt index would forget that there were more. All other states are OK here.
absl::Status CheckNotCut(const std::string& path, const IndexBuildOptions& options);

// Returns the index beside the shard if it matches (IndexMatches), otherwise one built in memory.
// CompareIndexWithShard (index_check.h) checks all of an index. `built` is set to whether the index
// was built, and thus certainly correct. Errors: those of BuildIndex and of CheckNotCut.
absl::StatusOr<std::shared_ptr<const ShardIndex>> OpenOrBuildIndex(const std::string& path,
                                                                   const IndexBuildOptions& options,
                                                                   bool* built = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEXING_INDEX_BUILD_H_
