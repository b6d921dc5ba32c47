// Combines rows into batches, and takes batches apart.

#ifndef SHARDFEED_PIPELINE_STAGES_BATCHING_H_
#define SHARDFEED_PIPELINE_STAGES_BATCHING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/stages/parallel_stage.h"
#include "pipeline/stages/stage.h"
#include "shardfeed/dataset.h"

namespace shardfeed {

// Batches of `size` rows. The last one is smaller, or dropped with `drop_remainder`.
std::unique_ptr<Stage> MakeBatchStage(std::unique_ptr<Stage> input,
                                      std::shared_ptr<const RowSpec> spec, uint64_t size,
                                      bool drop_remainder, HostAllocator allocator);

// The rows of batches.
std::unique_ptr<Stage> MakeUnbatchStage(std::unique_ptr<Stage> input);

// The length of a row by which it is batched: the number of elements of the ragged column `column`,
// the size of a bytes value, or the value of an int64 column.
int64_t RowLength(const Batch& batch, size_t column, size_t row);

// Pads all ragged columns; those not named in `padding` as by Padding().
BatchFn MakePadFn(std::map<std::string, Padding> padding);

// The columns that MakeSparseFn adds: "x_indices" for "x".
std::string IndicesName(std::string_view column);

// Adds for each of the ragged columns, which are the values of a sparse tensor (COO), a column of
// their indices [values, 2]: the row of each value in the batch, and its index in the row. The
// shape of the tensor is [rows, longest row].
BatchFn MakeSparseFn(std::vector<std::string> columns);

// Batches rows of similar length. A row goes into the bucket i with boundaries[i - 1] <= length <
// boundaries[i], and a bucket becomes a batch when it has sizes[i] rows. The length is the number
// of elements of the ragged column `column`, the size of a bytes value, or the value of an int64
// column. Unless `drop_remainder`, the rows left in the buckets are delivered at the end, shortest
// first.
std::unique_ptr<Stage> MakeBucketStage(std::unique_ptr<Stage> input,
                                       std::shared_ptr<const RowSpec> spec, size_t column,
                                       std::vector<int64_t> boundaries, std::vector<uint64_t> sizes,
                                       bool drop_remainder);

// Batches as many rows as `budget` allows: a batch costs its number of rows times the length of its
// longest row (as for the bucket stage). A longer row is a batch of its own.
std::unique_ptr<Stage> MakeBudgetBatchStage(std::unique_ptr<Stage> input,
                                            std::shared_ptr<const RowSpec> spec, size_t column,
                                            int64_t budget);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_BATCHING_H_
