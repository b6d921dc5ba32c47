// The types of values, and the features of a record that are to be read.

#ifndef SHARDFEED_SCHEMA_H_
#define SHARDFEED_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardfeed {

// The type of an element of a batch.
enum class DType : uint8_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,   // IEEE 754 binary16
  kBFloat16,  // the upper half of a binary32
  kFloat32,
  kFloat64,
  kBytes,  // a string of bytes; in memory a std::string_view
};

// Size of an element in memory, which is also the upper bound of its alignment.
size_t DTypeSize(DType dtype);

// "uint8", "bfloat16", "bytes" ...: NumPy's names where NumPy has the type.
std::string_view DTypeName(DType dtype);

// The kind of list that a tf.train.Feature holds. kNone is a Feature without a list, which stands
// for a missing value.
enum class FeatureKind : uint8_t { kNone, kBytes, kFloat, kInt64 };

// "none", "bytes", "float", "int64".
std::string_view FeatureKindName(FeatureKind kind);

// How the rows of a feature are laid out in a batch. The last three are for rows of varying length;
// for single rows, they are the same.
enum class Layout : uint8_t {
  kFixed,   // every row has the same shape: [rows, shape...]
  kRagged,  // the elements of all rows end to end, and row splits
  kPadded,  // [rows, longest row, shape...], each row filled up at its end
  kSparse,  // the values, and the indices of each (COO)
};

// Values of the kind that the feature has in the record: int64, float or bytes.
using FeatureValues =
    std::variant<std::vector<int64_t>, std::vector<float>, std::vector<std::string>>;

// One feature to read. These lists can become these types:
//
//   int64 list  kInt64; narrower integers, where a value that does not fit is an error
//   float list  kFloat32; kFloat64; kFloat16 and kBFloat16, rounded to nearest, ties to even
//   bytes list  kBytes; with decode_raw, every type but kBytes
struct FeatureSpec {
  // Name in the record. The empty name is a valid one.
  std::string name;
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kFixed;

  // kFixed: shape of a row; {} is a scalar. Other layouts: shape of one element of a row; all
  // elements of a row are in one list, so the length of the list must be divisible by the size of
  // an element. All dimensions are at least 1.
  std::vector<int64_t> shape;

  // kFixed: the row for a record that lacks the feature or has it without a kind: one value for
  // all, or as many as the shape says. Without a default, such a record is an error.
  // kPadded: one value that rows are filled up with; without it, zero or no bytes.
  // kRagged, kSparse: not allowed; a record without the feature is a row without elements.
  std::optional<FeatureValues> default_value;

  // The feature is a single string of bytes that holds the elements of the row as they are in
  // memory, little-endian.
  bool decode_raw = false;

  // For a feature list only. The elements of its row are the steps: each step holds exactly as many
  // values as `shape` says. With ragged_steps, each step holds any number of elements of that
  // shape, and the batch has one more dimension of varying length.
  bool ragged_steps = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SCHEMA_H_
