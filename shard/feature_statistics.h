// Statistics of the values of one feature over all records of a dataset, in bounded memory.
//
// Exact: counts, extremes, sizes; mean and deviation, but for rounding. Quantiles come from a
// histogram whose buckets divide each power of two into 128 parts, as HdrHistogram's do
// (hdrhistogram.org), so they are within 0.4 % of a value that has exactly that rank. Frequent
// values are counted as by Misra and Gries ("Finding repeated elements", 1982), in batches.
// Different values are estimated by HyperLogLog (Flajolet et al., 2007) once there are too many to
// count.

#ifndef SHARDFEED_SHARD_FEATURE_STATISTICS_H_
#define SHARDFEED_SHARD_FEATURE_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tfrecord/feature_values.h"

namespace shardfeed {

// Counts of numbers in buckets whose width is relative to their size.
class NumberHistogram {
 public:
  // `value` is finite.
  void Add(double value);
  void Merge(const NumberHistogram& other);

  uint64_t count() const { return count_; }
  // Returns the value with the rank ceil(share * count), counted from 1, or one within 0.4 % of it.
  // Whole numbers up to 256 are exact. 0 <= share <= 1; 0 without values.
  double Quantile(double share) const;

  // Returns the largest difference of the two distribution functions (the statistic of Kolmogorov
  // and Smirnov), at the borders of buckets. Both have values.
  static double Distance(const NumberHistogram& a, const NumberHistogram& b);

 private:
  static uint32_t BucketOf(double value);
  static double ValueOf(uint32_t bucket);
  void Cover(uint32_t first, uint32_t last);

  // Number of values in the bucket first_ + i.
  std::vector<uint64_t> counts_;
  uint32_t first_ = 0;
  uint64_t count_ = 0;
};

// Counts of the values that are most frequent.
class FrequentValues {
 public:
  // At most so many values are counted after Merge and in the end, and twice as many in between.
  static constexpr size_t kCapacity = 512;
  // More bytes of a value are not kept for display.
  static constexpr size_t kShownBytes = 48;

  // Counts a value. `bytes` is that of a value of bytes, whose key is KeyOf it.
  void Add(uint64_t key, std::string_view bytes = {});
  void Merge(const FrequentValues& other);

  // By how much counts may be too small; 0: all counts are exact, and so is the number of values.
  uint64_t max_error() const { return max_error_; }
  size_t size() const { return counts_.size(); }
  // Number of times that a value was counted; 0 if it is not among the most frequent ones. Keys of
  // bytes are those of KeyOf.
  uint64_t CountOf(uint64_t key) const;

  struct Entry {
    uint64_t key;
    uint64_t count;         // at least; at most max_error() more
    std::string_view text;  // the first kShownBytes of a value of bytes; borrowed
    uint64_t bytes;         // size of the whole value
  };
  // The most frequent values, at most `most`; equally frequent ones in the order of their keys.
  std::vector<Entry> Top(size_t most) const;

  static uint64_t KeyOf(std::string_view bytes);

 private:
  struct Counted {
    uint64_t count = 0;
    uint64_t bytes = 0;
    std::string text;
  };
  void Prune();

  absl::flat_hash_map<uint64_t, Counted> counts_;
  uint64_t max_error_ = 0;
};

// Estimates how many different values there are, with a standard error of 1.6 %.
class DistinctCounter {
 public:
  void Add(uint64_t hash);
  void Merge(const DistinctCounter& other);
  double Estimate() const;

 private:
  static constexpr int kBits = 12;
  std::vector<uint8_t> ranks_;  // empty, or 2^kBits
};

// Not thread-safe: collect statistics per thread and merge them. Mean and deviation depend, in
// their last digits, on the order of adding and merging.
class FeatureStatistics {
 public:
  // Adds the values of one record.
  void Add(const RecordFeature& feature);
  void Merge(const FeatureStatistics& other);

  // The kind of the first record in which the feature has a kind. Values of other kinds are not
  // counted.
  FeatureKind kind() const { return kind_; }
  // Number of records that have the feature with this kind.
  uint64_t records() const { return records_; }
  uint64_t values() const { return values_; }

  // Of numbers. NaN and infinite values are counted, and are in nothing else.
  uint64_t nan() const { return nan_; }
  uint64_t infinite() const { return infinite_; }
  uint64_t zeros() const { return zeros_; }
  bool has_numbers() const { return histogram_.count() > 0; }
  double min() const { return min_; }
  double max() const { return max_; }
  // Exact extremes of an int64 feature, which doubles cannot hold.
  int64_t min_int() const { return min_int_; }
  int64_t max_int() const { return max_int_; }
  double mean() const { return mean_; }
  // The standard deviation of these values, that is, divided by their number.
  double deviation() const;
  // As NumberHistogram::Quantile, within the extremes; exact while frequent() counts all values.
  double Quantile(double share) const;
  const NumberHistogram& histogram() const { return histogram_; }

  // Of bytes: sizes of values.
  uint64_t total_bytes() const { return total_bytes_; }

  const FrequentValues& frequent() const { return frequent_; }
  // A frequent value of numbers.
  double NumberOf(const FrequentValues::Entry& entry) const;
  // The text of a frequent value, for people.
  std::string TextOf(const FrequentValues::Entry& entry) const;
  // How many different values there are; `exact` tells whether this is not an estimate.
  uint64_t Distinct(bool* exact) const;

 private:
  void AddNumbers(const double* values, size_t count);

  FeatureKind kind_ = FeatureKind::kNone;
  uint64_t records_ = 0;
  uint64_t values_ = 0;
  uint64_t nan_ = 0;
  uint64_t infinite_ = 0;
  uint64_t zeros_ = 0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  int64_t min_int_ = std::numeric_limits<int64_t>::max();
  int64_t max_int_ = std::numeric_limits<int64_t>::min();
  double mean_ = 0;
  double squares_ = 0;  // the sum of the squares of differences from the mean
  uint64_t total_bytes_ = 0;
  NumberHistogram histogram_;
  FrequentValues frequent_;
  DistinctCounter distinct_;
  std::vector<double> numbers_;  // memory of Add
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FEATURE_STATISTICS_H_
