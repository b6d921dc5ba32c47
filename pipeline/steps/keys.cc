#include "pipeline/steps/keys.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "fmt/format.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {
namespace {

// Copies a number, or the representative of all numbers that are equal to it.
template <typename T>
void PutFloat(const char* from, char* to) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if (value == 0) value = 0;
  if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
  std::memcpy(to, &value, sizeof value);
}

// The same for 16-bit floats with `fraction` bits of mantissa.
void PutShortFloat(const char* from, int fraction, char* to) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  const uint16_t infinity = 0x7fff >> fraction << fraction;
  if ((bits & 0x7fff) == 0) bits = 0;
  if ((bits & 0x7fff) > infinity) bits = 0x7fff;
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace

absl::StatusOr<size_t> KeyColumn(std::string_view step, const RowSpec& spec,
                                 const std::string& name, bool batched) {
  absl::StatusOr<size_t> column = RowColumn(step, spec, name, batched);
  if (!column.ok()) return column;
  const ColumnSpec& found = spec[*column];
  if (found.ragged || !found.shape.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: column '{}' must have one number or one bytes value per row, got "
                    "{}",
                    step, name, RowSpecText({found})));
  }
  return column;
}

std::string_view KeyReader::Read(const Batch& batch, size_t row) {
  const size_t size = DTypeSize(dtype_);
  const char* const at = batch.columns[column_].data + row * size;
  switch (dtype_) {
    case DType::kBytes:
      return *reinterpret_cast<const std::string_view*>(at);
    case DType::kFloat16:
      PutShortFloat(at, 10, number_);
      break;
    case DType::kBFloat16:
      PutShortFloat(at, 7, number_);
      break;
    case DType::kFloat32:
      PutFloat<float>(at, number_);
      break;
    case DType::kFloat64:
      PutFloat<double>(at, number_);
      break;
    default:
      std::memcpy(number_, at, size);
  }
  return {number_, size};
}

}  // namespace shardfeed
