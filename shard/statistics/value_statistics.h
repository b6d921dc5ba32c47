// Statistics of the values of all features of a dataset, and of records that are equal.

#ifndef SHARDFEED_SHARD_STATISTICS_VALUE_STATISTICS_H_
#define SHARDFEED_SHARD_STATISTICS_VALUE_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/statistics/feature_statistics.h"

namespace shardfeed {

// Counts the records that equal another one: exactly up to kExact different records. Beyond that,
// it counts only the digests in a part of their range, which shrinks as their number grows.
class EqualRecords {
 public:
  static constexpr size_t kExact = size_t{1} << 15;

  // `crc` is the CRC-32C of the record. The lower half of a digest comes from it alone, so that
  // most records of a large dataset need not be hashed.
  void Add(std::string_view record, uint32_t crc) {
    ++records_;
    const uint64_t lower = Spread(crc) & UINT32_MAX;
    if ((lower & mask_) != 0) return;
    const uint64_t upper = FrequentValues::KeyOf(record) & ~uint64_t{UINT32_MAX};
    const uint64_t digest = upper | lower;
    if ((digest & mask_) != 0) return;
    pending_.push_back(digest);
    if (pending_.size() >= kExact) Count();
  }
  void Merge(const EqualRecords& other);

  uint64_t records() const { return records_; }
  // Number of records minus the number of different records, and whether this is exact. Nullopt:
  // not known any more.
  std::optional<uint64_t> repeated(bool* exact) const;

  // Equal objects have equal codes. Without `whole`, only the result is written, which is lost when
  // the object that Read returns is merged. The same holds for digests that earlier versions have
  // written.
  void Write(StatisticsWriter& out, bool whole) const;
  void Read(StatisticsReader& in, uint64_t records);

 private:
  static constexpr uint64_t kUnknown = UINT64_MAX;
  // What is written of the digests.
  enum Written : uint8_t { kResult = 0, kEarlierDigests = 1, kDigests = 2 };
  using Counts = std::vector<std::pair<uint64_t, uint64_t>>;  // digests, rising; and how often

  void Count();
  static Counts Counted(const Counts& counts, std::vector<uint64_t> pending, uint64_t* mask);

  uint64_t records_ = 0;
  // Only digests without these bits are kept.
  uint64_t mask_ = 0;
  Counts counts_;
  std::vector<uint64_t> pending_;
  // The result, if only that was read; kUnknown after merging it.
  std::optional<uint64_t> result_;
};

// Not thread-safe.
class ValueStatistics {
 public:
  using Features = std::map<std::string, FeatureStatistics, std::less<>>;

  // Statistics are kept for at most this number of features: those whose names come first.
  static constexpr size_t kMaxFeatures = 256;

  // Returns the statistics of a feature, which stay where they are until num_removed changes; null:
  // none are kept.
  FeatureStatistics* Of(std::string_view name);
  void Merge(const ValueStatistics& other);

  const Features& features() const { return features_; }
  // Whether there are no more features than that.
  bool has_all() const { return has_all_; }
  // The number of times that a feature was dropped for another.
  uint64_t num_removed() const { return num_removed_; }
  EqualRecords& equal_records() { return equal_records_; }
  const EqualRecords& equal_records() const { return equal_records_; }

  // Returns a code for Parse. Equal statistics have equal codes. With `whole`, merging what was
  // parsed yields what merging the original would have; without, the code is as small as possible.
  std::string Format(bool whole) const;
  // Nullopt: Format cannot have written `code` for a dataset of this number of records.
  static std::optional<ValueStatistics> Parse(std::string_view code, uint64_t records);
  // The same in Base64, for JSON. Null: FormatText cannot have written `text`.
  std::string FormatText(bool whole) const;
  static std::shared_ptr<const ValueStatistics> ParseText(std::string_view text, uint64_t records);

 private:
  Features features_;
  bool has_all_ = true;
  uint64_t num_removed_ = 0;
  EqualRecords equal_records_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_VALUE_STATISTICS_H_
