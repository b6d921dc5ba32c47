// Measures features of records for length columns.

#ifndef SHARDFEED_SHARD_INDEXING_FEATURE_LENGTHS_H_
#define SHARDFEED_SHARD_INDEXING_FEATURE_LENGTHS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shard/index/length_column.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/feature_values.h"

namespace shardfeed {

// The length of a feature is its number of values, or, if they are bytes, the bytes of all of them
// together; that of a feature list of a SequenceExample is its number of steps. A record without
// the feature has length 0. Not thread-safe.
class FeatureLengths {
 public:
  explicit FeatureLengths(absl::Span<const std::string> names);

  // Adds the next record. DataLoss: not a serialized Example or SequenceExample; the message names
  // the byte.
  absl::Status Add(std::string_view record);

  // Returns the lengths of the features that some record has.
  std::vector<NewLengthColumn> Take();
  // Returns the features that no record has.
  std::vector<std::string> Missing() const;
  // Returns the names of all features of the first records, for suggestions.
  const std::set<std::string>& seen() const { return seen_; }

 private:
  uint64_t LengthOf(const FeatureSummary& feature, std::string_view record);

  FeatureReader reader_;
  std::vector<NewLengthColumn> columns_;
  std::vector<bool> found_;
  std::set<std::string> seen_;
  uint64_t records_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEXING_FEATURE_LENGTHS_H_
