// A step that converts the columns of TFDS records to what TFDS declares: types that lists of
// Examples lack, and arrays that are encoded in strings.

#ifndef SHARDFEED_PIPELINE_ROWS_TFDS_VALUES_H_
#define SHARDFEED_PIPELINE_ROWS_TFDS_VALUES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "pipeline/data/known_features.h"
#include "pipeline/rows/row_step.h"

namespace shardfeed {

// `numbers` are those of the columns before the step. Errors of a run name the column.
// InvalidArgument: a value does not fit its type, or an array has another size than its shape.
// DataLoss: an array cannot be decompressed.
std::shared_ptr<const RowStep> MakeTfdsStep(std::vector<TfdsColumn> columns,
                                            std::vector<size_t> numbers);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_TFDS_VALUES_H_
