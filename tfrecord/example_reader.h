// Traverses a serialized tf.train.Example or tf.train.SequenceExample without building objects, for
// schemas and checks. Wire format: protobuf.dev/programming-guides/encoding.

#ifndef SHARDFEED_TFRECORD_EXAMPLE_READER_H_
#define SHARDFEED_TFRECORD_EXAMPLE_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// The first of int64, float and bytes that one of them is.
inline FeatureKind FirstOfKinds(FeatureKind a, FeatureKind b) { return std::max(a, b); }

// The content of one feature of one record. For a feature list of a SequenceExample, it covers all
// steps together.
struct FeatureSummary {
  // Borrowed from the record.
  std::string_view name;
  // Of steps of different kinds, FirstOfKinds.
  FeatureKind kind = FeatureKind::kNone;
  // True for a feature list, which has `steps` steps.
  bool is_list = false;
  // True if the steps of the list are of different kinds.
  bool kinds_differ = false;
  uint64_t steps = 0;
  // Range of the number of values in a step; the minimum is larger if there are no steps.
  uint64_t min_step_values = UINT64_MAX;
  uint64_t max_step_values = 0;
  uint64_t values = 0;
  // Sizes of the shortest and the longest value of a bytes feature; 0 if there are no values.
  uint64_t min_bytes = 0;
  uint64_t max_bytes = 0;
};

// The position of values in a record. Their bytes do not affect the summaries of VisitFeatures, as
// long as packed varints remain as many.
struct ValueSpan {
  size_t begin;
  size_t end;
  // Number of packed varints; 0 if the values are not varints.
  uint64_t varints;
};

// Calls `visit` for each feature in the order of the record, including repeated map entries (the
// last of several with the same name counts). Accepts what Protocol Buffers accepts: packed and
// unpacked lists, lists in several pieces, unknown fields. Appends the spans of all values to
// `spans`, unless it is null, in the order of the record.
//
// DataLoss: not a serialized Example or SequenceExample; the message names the byte.
absl::Status VisitFeatures(std::string_view record,
                           const std::function<void(const FeatureSummary&)>& visit,
                           std::vector<ValueSpan>* spans = nullptr);

// Calls `visit` for each value of the bytes features and of the bytes feature lists, in the order
// of the record. Both views are borrowed from it. DataLoss: as VisitFeatures.
absl::Status VisitBytes(
    std::string_view record,
    const std::function<void(std::string_view name, std::string_view value)>& visit);

// Returns whether `bytes` are exactly `count` varints.
bool AreVarints(std::string_view bytes, uint64_t count);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_EXAMPLE_READER_H_
