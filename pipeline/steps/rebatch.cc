#include <algorithm>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {

Dataset Dataset::Rebatch(uint64_t size, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  if (!batched()) {
    return Dataset(absl::InvalidArgumentError("rebatch: the elements here are rows: use batch"));
  }
  if (size == 0 || size > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("rebatch: the size must lie between 1 and {}, got {}", kMaxRows, size)));
  }
  for (const ColumnSpec& s : spec()) {
    if (std::count(s.shape.begin(), s.shape.end(), 0) > 0) {
      return Dataset(
          absl::InvalidArgumentError(fmt::format("rebatch: column '{}' is padded to another length "
                                                 "in each batch; pad it to a fixed length",
                                                 s.name)));
    }
  }
  // If both divide the rows at the same places, nothing is copied.
  return Unbatch().Batch(size, drop_remainder);
}

}  // namespace shardfeed
