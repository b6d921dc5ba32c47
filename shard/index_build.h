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
#include "shardfeed/index.h"

namespace shardfeed {

// The index that WriteIndex writes, in memory.
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
