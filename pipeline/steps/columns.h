// Checks of the columns that several steps work on.

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

// The number of the column `name`. InvalidArgument: it does not exist; here and below, the message
// names `step`.
absl::StatusOr<size_t> NamedColumn(std::string_view step, const RowSpec& spec,
                                   const std::string& name);

// The number of the column `name`, which has one bytes value per row. InvalidArgument: it does not.
absl::StatusOr<size_t> BytesColumn(std::string_view step, const RowSpec& spec,
                                   const std::string& name);

// The number of the column `name` in the rows that a step works on. InvalidArgument: it does not
// exist, or the elements are batches.
absl::StatusOr<size_t> RowColumn(std::string_view step, const RowSpec& spec,
                                 const std::string& name, bool batched);

// InvalidArgument: two columns have one name.
absl::Status CheckNames(std::string_view step, const RowSpec& spec);

// The column that a bytes column becomes when it is decoded to numbers. A first size of -1 makes it
// ragged.
absl::StatusOr<ColumnSpec> DecodedColumn(std::string_view step, std::string name, DType dtype,
                                         std::vector<int64_t> shape);

// The number of the column that gives the length of a row. InvalidArgument: it does not exist, all
// rows have the same length, or the elements are batches.
absl::StatusOr<size_t> RowLengthColumn(std::string_view step, const RowSpec& spec,
                                       const std::string& name, bool batched);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_COLUMNS_H_
