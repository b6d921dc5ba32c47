// What several steps ask of the columns that they work on.

#ifndef SHARDFEED_PIPELINE_STEPS_COLUMNS_H_
#define SHARDFEED_PIPELINE_STEPS_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// "x, y"
std::string NamesText(const RowSpec& spec);

// The number of the column `name`. InvalidArgument: there is none; `step` is named in the message,
// here and below.
absl::StatusOr<size_t> NamedColumn(std::string_view step, const RowSpec& spec,
                                   const std::string& name);

// The number of the column `name` of one value of bytes in a row. InvalidArgument: there is none.
absl::StatusOr<size_t> BytesColumn(std::string_view step, const RowSpec& spec,
                                   const std::string& name);

// The number of the column `name` in the rows that a step works on. InvalidArgument: there is none,
// or the elements are batches.
absl::StatusOr<size_t> RowColumn(std::string_view step, const RowSpec& spec,
                                 const std::string& name, bool batched);

// What a column of bytes becomes that is decoded to numbers. A first size of -1 makes it ragged.
absl::StatusOr<ColumnSpec> DecodedColumn(std::string_view step, std::string name, DType dtype,
                                         std::vector<int64_t> shape);

// The number of the column that tells a row's length. InvalidArgument: there is none, all rows are
// of one length, or the elements are batches.
absl::StatusOr<size_t> LengthColumn(std::string_view step, const RowSpec& spec,
                                    const std::string& name, bool batched);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_COLUMNS_H_
