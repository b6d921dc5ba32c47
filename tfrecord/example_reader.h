// Walks over a serialised tf.train.Example or tf.train.SequenceExample without building objects:
// what schemas and checks need. Wire format: protobuf.dev/programming-guides/encoding.

#ifndef SHARDFEED_TFRECORD_EXAMPLE_READER_H_
#define SHARDFEED_TFRECORD_EXAMPLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// What one feature of one record holds. For a feature list of a SequenceExample, all its steps
// together.
struct FeatureSummary {
  std::string_view name;  // borrowed from the record
  FeatureKind kind = FeatureKind::kNone;
  bool is_list = false;       // a feature list; `steps` says how long
  bool kinds_differ = false;  // steps of one list are of different kinds
  uint64_t steps = 0;
  uint64_t values = 0;
  // Sizes of the shortest and longest value of a bytes feature; 0 when there is none.
  uint64_t min_bytes = 0;
  uint64_t max_bytes = 0;
};

// Where values stand in a record: bytes that have no say in what VisitFeatures finds, as long as
// those of packed varints hold as many of them.
struct ValueSpan {
  size_t begin;
  size_t end;
  uint64_t varints;  // 0: not varints
};

// Calls `visit` for each feature as it stands in the record, map entries that are repeated
// included (the last of equal names counts). Reads what Protocol Buffers would: packed and unpacked
// lists, lists in several pieces, unknown fields. Appends to `spans`, unless it is null, what
// spans of values there are, in the order of the record.
//
// DataLoss: not a serialised Example or SequenceExample; the message names the byte.
absl::Status VisitFeatures(std::string_view record,
                           const std::function<void(const FeatureSummary&)>& visit,
                           std::vector<ValueSpan>* spans = nullptr);

// Calls `visit` for each value of the bytes features, and of the bytes in feature lists, as they
// stand in the record. Both views are borrowed from it. DataLoss as VisitFeatures.
absl::Status VisitBytes(
    std::string_view record,
    const std::function<void(std::string_view name, std::string_view value)>& visit);

// Whether `bytes` are `count` whole varints.
bool AreVarints(std::string_view bytes, uint64_t count);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_EXAMPLE_READER_H_
