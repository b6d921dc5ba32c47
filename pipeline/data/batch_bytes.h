// Serializes batches for caches and snapshots. The layout is in docs/snapshot.md.

#ifndef SHARDFEED_PIPELINE_DATA_BATCH_BYTES_H_
#define SHARDFEED_PIPELINE_DATA_BATCH_BYTES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/buffer.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// Appends `batch`, which has a spec, to `out`. The names of columns are not included.
void AppendBatch(const Batch& batch, std::string* out);

// Parses the batch in the first `size` bytes of `buffer`, which its columns point into. Its columns
// get the names of `names`. Any bytes are safe to pass. DataLoss: the bytes are not a batch, or not
// one with the same number of columns.
absl::StatusOr<Batch> ParseBatch(std::shared_ptr<Buffer> buffer, size_t size,
                                 const std::shared_ptr<const RowSpec>& names);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_BATCH_BYTES_H_
