// Columns whose values tell rows from one another.

#ifndef SHARDFEED_PIPELINE_STEPS_KEYS_H_
#define SHARDFEED_PIPELINE_STEPS_KEYS_H_

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// The number of the column `name` of one number or one value of bytes in a row. InvalidArgument:
// there is none, or the elements are batches; `step` is named in the message.
absl::StatusOr<size_t> KeyColumn(std::string_view step, const RowSpec& spec,
                                 const std::string& name, bool batched);

// What is the same for rows of equal values in that column, and for these alone. 0.0 and -0.0 are
// equal, and so are all NaNs. Valid until the next call, and as long as the batch.
class KeyReader {
 public:
  KeyReader(const ColumnSpec& spec, size_t column) : dtype_(spec.dtype), column_(column) {}

  std::string_view Read(const Batch& batch, size_t row);

 private:
  const DType dtype_;
  const size_t column_;
  char number_[8] = {};
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STEPS_KEYS_H_
