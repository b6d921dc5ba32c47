// The value with which the rows of a column are filled up.

#ifndef SHARDFEED_PIPELINE_STAGES_PADDING_VALUE_H_
#define SHARDFEED_PIPELINE_STAGES_PADDING_VALUE_H_

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardfeed/batch.h"
#include "shardfeed/dataset.h"

namespace shardfeed {

// A value of any type. A value of bytes is a view of the string in the Padding from which it was
// made.
struct PaddingValue {
  alignas(std::string_view) char bytes[sizeof(std::string_view)] = {};
};

// InvalidArgument: the type of the column cannot hold the value; the message begins with `step`,
// and calls the value by its `role`. Doubles are rounded to the precision of a float column;
// nothing else is changed.
absl::StatusOr<PaddingValue> PaddingValueOf(std::string_view step, const ColumnSpec& column,
                                            const Padding& padding,
                                            std::string_view role = "padding value");

// Writes the value, of the type `dtype`, `count` times.
void FillWith(const PaddingValue& value, DType dtype, size_t count, char* to);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_PADDING_VALUE_H_
