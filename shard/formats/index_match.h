// Finds out whether an index belongs to the shard beside it.

#ifndef SHARDFEED_SHARD_FORMATS_INDEX_MATCH_H_
#define SHARDFEED_SHARD_FORMATS_INDEX_MATCH_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "shardfeed/index.h"

namespace shardfeed {

// Whether an index with this summary belongs to a shard of `shard_bytes`, as far as is known
// without reading it: the sizes are the same, and no sample follows the last one of a tar archive.
// Tar fills archives up with zeros, so one to which samples were appended may have the size that it
// had before. Calls `open`, which opens the shard, only for an archive, of which it reads the
// header that follows; if that fails, the size alone counts. Errors: those of `open`.
absl::StatusOr<bool> IndexMatches(
    const IndexSummary& summary, uint64_t shard_bytes,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const File>>()> open);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_INDEX_MATCH_H_
