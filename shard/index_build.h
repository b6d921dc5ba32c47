// Indexes for shards that were written without one.

#ifndef SHARDFEED_SHARD_INDEX_BUILD_H_
#define SHARDFEED_SHARD_INDEX_BUILD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/index.h"

namespace shardfeed {

struct IndexBuildOptions {
  // Threads for one raw shard; more than one pays from some hundred MiB on.
  int threads = 1;
  // Content between two restart points of a compressed shard: what a random access inflates at
  // most. Each point in foreign data costs up to 32 KiB (compressed) in the index.
  uint64_t restart_interval = 4 << 20;
  std::stop_token stop;
  // Adds up bytes of the shard that were passed (not all are read): for progress.
  std::atomic<uint64_t>* bytes_passed = nullptr;
  // Adds up bytes that were really read.
  std::atomic<uint64_t>* bytes_read = nullptr;
};

// Walks the headers of the shard at `path` and writes its index to IndexPath(path), replacing what
// is there in one step. Of raw shards only headers and footers are read where records are large;
// payloads are not checked. Compressed shards are inflated, and get restart points.
//
// DataLoss, and no index: damage that keeps records from being told apart, with record and byte.
absl::StatusOr<IndexSummary> WriteIndex(const std::string& path, const IndexBuildOptions& options);

// The same index, in memory.
absl::StatusOr<std::shared_ptr<const ShardIndex>> BuildIndex(const std::string& path,
                                                             const IndexBuildOptions& options);

// DataLoss: the shard ends between two of the records that the index beside it, which is of another
// size, knows. An index made anew would forget that there were more. Anything else is OK here.
absl::Status CheckNotCut(const std::string& path, const IndexBuildOptions& options);

// The index beside the shard if there is one that fits, otherwise one built in memory; errors:
// those of BuildIndex and of CheckNotCut. An index fits when the sizes agree; whether all of it is
// true is told by CompareIndexWithShard (index_check.h). `built` tells which of the two it is: one
// that was built is true.
absl::StatusOr<std::shared_ptr<const ShardIndex>> OpenOrBuildIndex(const std::string& path,
                                                                   const IndexBuildOptions& options,
                                                                   bool* built = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEX_BUILD_H_
