// Rows to batches, and back.

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

// Batches of `size` rows. The last one is smaller, or left out with `drop_remainder`.
std::unique_ptr<Stage> MakeBatchStage(std::unique_ptr<Stage> input,
                                      std::shared_ptr<const RowSpec> spec, uint64_t size,
                                      bool drop_remainder, HostAllocator allocator);

// The rows of batches, one by one.
std::unique_ptr<Stage> MakeUnbatchStage(std::unique_ptr<Stage> input);

// InvalidArgument: the column's type cannot hold the value. A double is rounded to the precision of
// a column of floats; nothing else is changed.
absl::Status CheckPadding(const ColumnSpec& column, const Padding& padding);

// Pads all ragged columns; those not named in `padding` as Padding() says.
BatchFn MakePadFn(std::map<std::string, Padding> padding);

// The columns that MakeSparseFn adds: "x_indices" for "x".
std::string IndicesName(std::string_view column);

// For each of the ragged columns, which are the values of a sparse tensor (COO), a column of their
// indices: the values' row in the batch and place in the row, [values, 2] end to end. The tensor's
// shape is [rows, longest row].
BatchFn MakeSparseFn(std::vector<std::string> columns);

// Gathers rows of like length: row r goes into the bucket i with boundaries[i - 1] <= length <
// boundaries[i], and a bucket's rows become a batch when there are sizes[i] of them. The length is
// the number of elements of the ragged column `column`, of bytes the size of the value, or the
// number that a column of int64 has. At the end what is left in the buckets follows, shortest
// first, unless `drop_remainder`.
std::unique_ptr<Stage> MakeBucketStage(std::unique_ptr<Stage> input,
                                       std::shared_ptr<const RowSpec> spec, size_t column,
                                       std::vector<int64_t> boundaries, std::vector<uint64_t> sizes,
                                       bool drop_remainder);

// Batches of as many rows as `budget` allows, rows times the longest one's length (as the bucket
// stage has it) being what a batch takes. A row that is longer than the budget is a batch of its
// own.
std::unique_ptr<Stage> MakeBudgetBatchStage(std::unique_ptr<Stage> input,
                                            std::shared_ptr<const RowSpec> spec, size_t column,
                                            int64_t budget);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_BATCHING_H_
