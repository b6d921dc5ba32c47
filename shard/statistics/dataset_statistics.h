// Statistics of a dataset (its schema, and the values of each feature), and how far two datasets
// differ in them.

#ifndef SHARDFEED_SHARD_STATISTICS_DATASET_STATISTICS_H_
#define SHARDFEED_SHARD_STATISTICS_DATASET_STATISTICS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "shard/schema/schema.h"
#include "shard/statistics/value_collector.h"
#include "shard/statistics/value_statistics.h"
#include "tfrecord/crc32c.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// Not thread-safe: collect statistics per thread and merge them. Except for features whose
// kind differs between records (Schema), the result does not depend on the order of merging.
class DatasetStatistics {
 public:
  DatasetStatistics() = default;
  DatasetStatistics(Schema schema, ValueStatistics values)
      : schema_(std::move(schema)), values_(std::move(values)) {}

  // Adds a record. One that is not an Example is only counted (Schema::not_examples).
  void AddRecord(std::string_view record) {
    values_.Add(record, Crc32c(record), schema_).IgnoreError();
  }
  // The same of a view of a whole frame that matches its CRCs, but returns DataLoss for what is not
  // an Example.
  absl::Status Add(const Record& record);
  void Merge(const DatasetStatistics& other);

  const Schema& schema() const { return schema_; }
  // Number of records that are Examples.
  uint64_t num_examples() const { return schema_.records() - schema_.not_examples(); }
  // By name: the features of schema() that have a kind, at most ValueStatistics::kMaxFeatures.
  // Context features and feature lists of the same name share an entry, as they do there.
  const ValueStatistics::Features& features() const { return values().features(); }
  const ValueStatistics& values() const { return values_.values(); }
  // Whether features() has what there is to know of the feature: false for those beyond
  // ValueStatistics::kMaxFeatures.
  bool CountsValuesOf(std::string_view name) const;

  Schema TakeSchema() { return std::move(schema_); }
  ValueStatistics TakeValues() { return values_.Take(); }

 private:
  Schema schema_;
  ValueCollector values_;
};

// How far the values of one feature differ in two datasets that both have it, with one kind.
struct Drift {
  std::string feature;
  // From 0 (equal) to 1: the largest of the differences below.
  double distance = 0;
  // What the distance is: "distribution", the largest difference of the distribution functions of
  // numbers (Kolmogorov and Smirnov); "length", that of the distribution functions of the number of
  // values in a record; "frequency", that of how frequent a value is among all values (Chebyshev
  // distance); "NaN" and "infinite", that of the shares of such values; "missing", that of the
  // shares of records without the feature.
  std::string_view measure;
  // For "frequency", the value that differs most, for people.
  std::string value;
  // Whether two samples of these sizes from one distribution differ by more than the distance at
  // most once in a thousand times.
  bool significant = false;
};

struct DatasetDifference {
  // Differences of the schema, a sentence each: features that only one of them has, other kinds,
  // other fixed shapes.
  std::vector<std::string> schema;
  // The largest distance first.
  std::vector<Drift> drift;
  // Features of which only "missing" could be compared, because no statistics are kept for so many.
  std::vector<std::string> not_compared;
};

// `a` and `b` name the datasets in the text.
DatasetDifference Compare(const DatasetStatistics& first, const DatasetStatistics& second,
                          std::string_view a, std::string_view b);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_DATASET_STATISTICS_H_
