// Columns of a batch that stay on the host.

#ifndef SHARDFEED_CUDA_HOST_COLUMNS_H_
#define SHARDFEED_CUDA_HOST_COLUMNS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "shardfeed/batch.h"

namespace shardfeed {

// A batch of the given columns of bytes, with the origins and damaged rows of `from`. The values
// are copied to memory of their own: they outlive the pinned memory of `from`, which is soon needed
// for the next batch and does not exist in a child after fork. `spec` has these columns.
Batch CopyHostColumns(const Batch& from, const std::vector<size_t>& columns,
                      std::shared_ptr<const RowSpec> spec);

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_HOST_COLUMNS_H_
