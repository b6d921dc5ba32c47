// What is asked for of the features of a record, and what it becomes in a batch.

#ifndef SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_
#define SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "decode/features/dtype.h"
#include "tfrecord/example_reader.h"

namespace shardfeed {

// How the rows of a feature stand in a batch. The last three are for rows of any length; as a row
// is read, there is no difference between them.
enum class Layout : uint8_t {
  kFixed,   // every row has the same shape: [rows, shape...]
  kRagged,  // the elements of all rows end to end, and row splits
  kPadded,  // [rows, longest row, shape...], filled up behind each row
  kSparse,  // the values, and the indices of each (COO)
};

// Values of the kind that the feature has in the record: int64, float or bytes.
using FeatureValues =
    std::variant<std::vector<int64_t>, std::vector<float>, std::vector<std::string>>;

// One feature. Which lists can become which type:
//
//   int64 list  kInt64; kInt32 and kUInt8, where a value that does not fit is an error
//   float list  kFloat32; kFloat16 and kBFloat16, rounded to nearest, ties to even
//   bytes list  kBytes; with decode_raw, every type but kBytes
struct FeatureSpec {
  // In the record. The empty name is one as well.
  std::string name;
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kFixed;

  // kFixed: of a row; {} is a scalar. Otherwise of an element of the row, and as all of a row's
  // elements are in one list, its length must divide by the element's. All at least 1.
  std::vector<int64_t> shape;

  // kFixed: what a row becomes whose record lacks the feature or has it without a kind: one value
  // for all, or as many as the shape says. Without it, that is an error.
  // kPadded: what a row is filled up with, one value; without it, zero or no bytes.
  // kRagged, kSparse: none; a record without the feature is a row without elements.
  std::optional<FeatureValues> default_value;

  // The feature is a single string of bytes, which is the row's elements as they stand in memory,
  // little-endian.
  bool decode_raw = false;

  // Of a feature list only. A row of a feature list has its steps for elements: each step holds
  // just as many values as `shape` says. With ragged_steps, each step holds any number of elements
  // of that shape, and the batch has one more dimension of varying length.
  bool ragged_steps = false;
};

// The kind of list that the feature must have in the record.
FeatureKind ListKind(const FeatureSpec& spec);

// Number of values in an element of `shape`. Only for a validated spec.
int64_t NumValues(const FeatureSpec& spec);

// "[3, 224, 224]"
std::string ShapeText(absl::Span<const int64_t> shape);

// InvalidArgument: names the feature, what is wrong with it, and what can be done.
// `in_feature_list`: whether it is asked for of a SequenceExample's feature lists.
absl::Status Validate(const FeatureSpec& spec, bool in_feature_list);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_
