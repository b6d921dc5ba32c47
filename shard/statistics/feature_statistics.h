// Statistics of the values of one feature over all records of a dataset, in bounded memory.
//
// Nothing depends on the order in which records are added and statistics are merged. Exact: counts,
// extremes, sizes. Quantiles come from a histogram, mean and deviation from the exact sums in it
// (number_histogram.h). Frequent values are counted while there are few different ones, and sampled
// otherwise; different values are then estimated by HyperLogLog (Flajolet et al., 2007).

#ifndef SHARDFEED_SHARD_STATISTICS_FEATURE_STATISTICS_H_
#define SHARDFEED_SHARD_STATISTICS_FEATURE_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "shard/statistics/frequent_values.h"
#include "shard/statistics/image_statistics.h"
#include "shard/statistics/number_histogram.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/feature_values.h"

namespace shardfeed {

// Not thread-safe: collect statistics per thread and merge them.
class FeatureStatistics {
 public:
  // If a record has kLongList values or more, only a sample at random places is looked at:
  // kSampleOfList of them, or one or two more. The statistics "of all values" below take
  // all values into account, and the others take the sample.
  static constexpr size_t kLongList = 32;
  static constexpr size_t kSampleOfList = 8;

  // Adds the values of one record. `seed` is a random number of the record.
  void Add(const RecordFeature& feature, uint64_t seed);
  void Add(const RecordFeature& feature) { Add(feature, Spread(records_ + 1)); }
  // The same for `count` values whose spans in the record are known.
  void Add(FeatureKind kind, std::string_view record, absl::Span<const ValueSpan> spans,
           uint64_t count, uint64_t seed);
  // The same in two steps, for records with one value each, in less time than one by one. First,
  // Offer is called for each value unless its seed exceeds SeedLimit; it returns the new limit.
  // Then AddSingles is called for several of one kind together. `single` has 4 bytes of a float,
  // and otherwise 8: an int64, or what KeyOf has returned for bytes. All are little-endian.
  uint64_t SeedLimit(FeatureKind kind);
  uint64_t Offer(FeatureKind kind, const char* single, uint64_t seed, std::string_view bytes = {});
  void AddSingles(FeatureKind kind, const char* singles, size_t count);
  // Whether bytes can be added so: not while all different ones are counted.
  bool TakesSingleBytes();
  // Looks at a value of bytes before it is added.
  uint64_t KeyOf(std::string_view bytes) {
    total_bytes_ += bytes.size();
    images_.Add(bytes);
    return FrequentValues::KeyOf(bytes);
  }
  void Merge(const FeatureStatistics& other);

  // The kind of the values. Where records have several kinds of the feature, only the values of one
  // are counted: int64 before float before bytes.
  FeatureKind kind() const { return kind_; }
  // Number of records that have the feature with this kind.
  uint64_t records() const { return records_; }

  // Statistics of all values.
  uint64_t values() const { return values_; }
  // NaN and infinite values are counted here, and do not count in any other statistic.
  uint64_t nan() const { return nan_; }
  uint64_t infinite() const { return infinite_; }
  uint64_t zeros() const { return zeros_; }
  double min() const { return kind_ == FeatureKind::kInt64 ? static_cast<double>(min_int_) : min_; }
  double max() const { return kind_ == FeatureKind::kInt64 ? static_cast<double>(max_int_) : max_; }
  // Exact extremes of an int64 feature, which doubles cannot hold.
  int64_t min_int() const { return min_int_; }
  int64_t max_int() const { return max_int_; }
  // For bytes: the sum of the sizes of all values.
  uint64_t total_bytes() const { return total_bytes_; }
  // The numbers of values in the records.
  NumberHistogram lengths() const;

  // Statistics of the sample of values.
  bool has_numbers() const { return histogram().count() > 0; }
  double mean() const { return histogram().Mean(); }
  // The standard deviation of these values, that is, divided by their number.
  double deviation() const { return histogram().Deviation(); }
  // As NumberHistogram::Quantile, within the extremes; exact while frequent() counts all values.
  double Quantile(double share) const;
  NumberHistogram histogram() const { return frequent_.exact() ? CountedHistogram() : histogram_; }

  // The values of bytes that are images.
  const ImageStatistics& images() const { return images_; }

  const FrequentValues& frequent() const { return frequent_; }
  // The number whose key this is.
  double NumberOf(uint64_t key) const;
  // The text of a frequent value, for people.
  std::string TextOf(const FrequentValues::Entry& entry) const;
  // How many different values there are; `exact` tells whether this is not an estimate.
  uint64_t Distinct(bool* exact) const { return frequent_.Distinct(exact); }

  // Equal statistics have equal codes. `whole` is as in FrequentValues::Write.
  void Write(StatisticsWriter& out, bool whole) const;
  // Fails `in` if Write cannot have written what it reads for a dataset of so many records.
  void Read(StatisticsReader& in, uint64_t records);

 private:
  bool Begin(FeatureKind kind, uint64_t count);
  // Whether values of this kind count. Forgets those of a lesser kind.
  bool BeginKind(FeatureKind kind);
  // Places tell which values are looked at.
  template <typename Places>
  void AddFeature(const RecordFeature& feature, Places places);
  template <typename Places>
  void AddSpans(const char* record, absl::Span<const ValueSpan> spans, Places places);
  template <typename Places>
  void AddInt(int64_t value, Places& places);
  template <typename Places>
  void AddFloat(uint32_t bits, Places& places);
  // Adds floats, little-endian, except for what LookAtFloat does.
  void ScanFloats(const char* floats, size_t count);
  void ScanFloat(uint32_t bits);
  template <typename Places>
  void LookAtFloat(uint32_t bits, Places& places);
  template <typename Places>
  void AddBytes(std::string_view value, Places& places);
  // Adds a number that is looked at. `value` is finite unless not `is_finite`.
  template <typename Places>
  void LookAt(uint64_t key, double value, bool is_finite, Places& places);
  // Says that some values of a record are not looked at.
  void LeaveOut(uint64_t others);
  // Returns the histogram of the values that frequent_ counts.
  NumberHistogram CountedHistogram() const;

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
  uint64_t total_bytes_ = 0;
  uint64_t single_ = 0;        // records with one value
  NumberHistogram lengths_;    // number of values in the other records
  NumberHistogram histogram_;  // empty while frequent_ counts all values
  ImageStatistics images_;
  FrequentValues frequent_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_FEATURE_STATISTICS_H_
