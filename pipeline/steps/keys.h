// Columns whose values identify rows.

#ifndef SHARDFEED_PIPELINE_STEPS_KEYS_H_
#define SHARDFEED_PIPELINE_STEPS_KEYS_H_

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// The number of the column `name` with one number or one bytes value per row. InvalidArgument: it
// does not exist, or the elements are batches; the message names `step`.
absl::StatusOr<size_t> KeyColumn(std::string_view step, const RowSpec& spec,
                                 const std::string& name, bool batched);

// A hash table's function that finds strings by views.
struct KeyHash {
  using is_transparent = void;
  size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};

// A key that is equal for exactly the rows with equal values in the column. 0.0 and -0.0 are equal,
// and so are all NaNs. Valid until the next call, and as long as the batch.
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
