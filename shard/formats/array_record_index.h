// Indexes of ArrayRecord shards: docs/arrayrecord.md.

#ifndef SHARDFEED_SHARD_FORMATS_ARRAY_RECORD_INDEX_H_
#define SHARDFEED_SHARD_FORMATS_ARRAY_RECORD_INDEX_H_

#include "absl/status/statusor.h"
#include "io/file.h"
#include "shard/index/index.h"
#include "shardfeed/index.h"

namespace shardfeed {

// Indexes a shard from its footer alone.
// Errors: those of ReadArrayRecordFooter.
absl::StatusOr<IndexSummary> IndexArrayRecord(const File& file, const IndexBuildOptions& options,
                                              IndexBuilder* builder);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_ARRAY_RECORD_INDEX_H_
