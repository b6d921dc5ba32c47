// Indexes of MDS shards: docs/mds.md.

#ifndef SHARDFEED_SHARD_FORMATS_MDS_INDEX_H_
#define SHARDFEED_SHARD_FORMATS_MDS_INDEX_H_

#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/index/index.h"
#include "shardfeed/index.h"

namespace shardfeed {

// Indexes a shard from its header alone.
// DataLoss: the errors of ReadMdsHeader.
absl::StatusOr<IndexSummary> IndexMds(const File& file, const IndexBuildOptions& options,
                                      IndexBuilder* builder);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_MDS_INDEX_H_
