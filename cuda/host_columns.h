// Copies the columns of a batch that stay on the host.

#ifndef SHARDFEED_CUDA_HOST_COLUMNS_H_
#define SHARDFEED_CUDA_HOST_COLUMNS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "shardfeed/batch.h"

namespace shardfeed {

// Returns a batch of the given bytes columns, with the origins and damaged rows of `from`. The
// values are copied to memory of their own, so they outlive the pinned memory of `from`, which is
// soon reused for another batch and does not exist in a child process after fork. `spec` describes
// these columns.
Batch CopyHostColumns(const Batch& from, const std::vector<size_t>& columns,
                      std::shared_ptr<const RowSpec> spec);

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_HOST_COLUMNS_H_
