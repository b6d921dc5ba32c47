// Reads all values of a serialized tf.train.Example or tf.train.SequenceExample without knowing its
// features, for statistics. Wire format: protobuf.dev/programming-guides/encoding.

#ifndef SHARDFEED_TFRECORD_FEATURE_VALUES_H_
#define SHARDFEED_TFRECORD_FEATURE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// The values of one feature of one record; those of all steps of a feature list are together. Only
// the list of `kind` has values, unless the steps of a feature list are of different kinds.
struct RecordFeature {
  // Borrowed from the record, as `bytes`.
  std::string_view name;
  FeatureKind kind = FeatureKind::kNone;
  // True for a feature list of a SequenceExample.
  bool is_list = false;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string_view> bytes;
};

// Reads records one after the other into memory that is used again. Not thread-safe.
class FeatureReader {
 public:
  // Reads the features of a record, which must live as long as they are used. Accepts what
  // VisitFeatures (example_reader.h) accepts; of several features with the same name, the last one
  // counts.
  //
  // DataLoss: not a serialized Example or SequenceExample; the message names the byte. features()
  // is then empty.
  absl::Status Read(std::string_view record);

  // The features of the last record, in its order.
  absl::Span<const RecordFeature> features() const { return {features_.data(), count_}; }

 private:
  const char* ReadMap(std::string_view map, bool is_list);
  RecordFeature& Next();
  void DropRepeated();

  std::vector<RecordFeature> features_;  // the first count_ are in use
  size_t count_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_FEATURE_VALUES_H_
