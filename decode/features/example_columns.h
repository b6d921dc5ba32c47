// Columns of values in memory, and the tf.train.Examples that their rows become.

#ifndef SHARDFEED_DECODE_FEATURES_EXAMPLE_COLUMNS_H_
#define SHARDFEED_DECODE_FEATURES_EXAMPLE_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/examples.h"

namespace shardfeed {

// Bits, the least significant of each byte first. Null: all are set.
struct BitView {
  const uint8_t* bits = nullptr;
  uint64_t offset = 0;

  bool operator[](uint64_t i) const {
    const uint64_t at = offset + i;
    return bits == nullptr || (bits[at / 8] >> (at % 8) & 1) != 0;
  }
};

// The values of one feature. All memory is the caller's, unless `held` keeps it.
struct ExampleColumn {
  // How an element is stored. Integers and booleans become an int64 list, floating-point numbers a
  // float list, and strings a bytes list.
  enum class Type : uint8_t {
    kBool,  // one bit, in `truth`
    kInt8,
    kUInt8,
    kInt16,
    kUInt16,
    kInt32,
    kUInt32,
    kInt64,
    kUInt64,
    kFloat16,
    kBFloat16,
    kFloat32,
    kFloat64,
    kView,        // std::string_view
    kString32,    // bytes [values[i], values[i + 1]) of `bytes`; int32 offsets
    kString64,    // the same with int64 offsets
    kFixedBytes,  // `string_bytes` bytes
    kArrowView,   // Arrow's view of 16 bytes, into one of `buffers` if the string is longer than 12
    kNull,        // no row has a value
  };

  std::string name;
  Type type = Type::kInt64;
  const void* values = nullptr;
  BitView truth;
  const char* bytes = nullptr;
  const void* const* buffers = nullptr;
  size_t string_bytes = 0;
  uint64_t first = 0;  // number of the element that `splits` or row 0 begins with

  // Row r has the elements [splits[r], splits[r + 1]); without splits, `width` elements.
  const int32_t* splits32 = nullptr;
  const int64_t* splits64 = nullptr;
  uint64_t width = 1;
  bool is_list = false;        // whether a row is a list, even if it has one element
  std::vector<int64_t> shape;  // shape of a row's elements; empty: a list, or one value

  // A row that is not set has no value: its record lacks the feature. Elements must all be set.
  BitView row_is_set;
  BitView element_is_set;

  std::shared_ptr<const void> held;

  // The numbers of the elements of a row: from the first up to the second, without it.
  std::pair<uint64_t, uint64_t> ElementsOf(uint64_t row) const;
  // An element of a type of strings.
  std::string_view StringAt(uint64_t element) const;
};

// Makes the record of a row at a time. Not thread-safe.
class ExampleColumns {
 public:
  // InvalidArgument: a name appears twice, or is not UTF-8.
  static absl::StatusOr<ExampleColumns> Make(std::vector<ExampleColumn> columns);

  // Appends the Example of a row to `record`; after an error, part of it.
  //
  // InvalidArgument: a value has no counterpart: an integer beyond int64, a double beyond the
  // range of float32 (others are rounded), or a missing element of a list. The message names the
  // feature and the row.
  absl::Status Serialize(uint64_t row, std::string* record);

 private:
  explicit ExampleColumns(std::vector<ExampleColumn> columns) : columns_(std::move(columns)) {}
  absl::Status Add(const ExampleColumn& column, uint64_t row);

  std::vector<ExampleColumn> columns_;
  ExampleBuilder builder_;
  std::vector<int64_t> ints_;
  std::vector<float> floats_;
  std::vector<std::string_view> strings_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_EXAMPLE_COLUMNS_H_
