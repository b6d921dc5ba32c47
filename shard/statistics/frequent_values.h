// Finds the most frequent values and the number of distinct ones in bounded memory.

#ifndef SHARDFEED_SHARD_STATISTICS_FREQUENT_VALUES_H_
#define SHARDFEED_SHARD_STATISTICS_FREQUENT_VALUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shard/statistics/count_table.h"
#include "shard/statistics/statistics_code.h"

namespace shardfeed {

// Spreads a number over all 64 bits. Equal numbers stay equal, and similar numbers become
// dissimilar.
inline uint64_t Spread(uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  return value ^ value >> 32;
}

// Estimates how many different values there are, with a standard error of 1.6 %.
class DistinctCounter {
 public:
  // `hash` is that of a value.
  void Add(uint64_t hash) {
    Start();
    Raise(hash, ranks_.data());
  }
  // Adds hash_of(0) to hash_of(count - 1).
  template <typename HashOf>
  void AddAll(size_t count, HashOf hash_of) {
    Start();
    uint8_t* const ranks = ranks_.data();
    for (size_t i = 0; i < count; ++i) Raise(hash_of(i), ranks);
  }
  void Merge(const DistinctCounter& other);
  double Estimate() const;

  void Write(StatisticsWriter& out) const;
  void Read(StatisticsReader& in);

 private:
  static constexpr int kBits = 12;
  static constexpr size_t kRegisters = size_t{1} << kBits;
  static constexpr int kMaxRank = 64 - kBits + 1;

  void Start() {
    if (ranks_.empty()) [[unlikely]] {
      ranks_.resize(kRegisters);
    }
  }
  // Without a branch, which no processor could predict.
  static void Raise(uint64_t hash, uint8_t* ranks) {
    // The bit after those that are examined ends the count of zeros in front.
    const uint64_t examined = hash << kBits | uint64_t{1} << (kBits - 1);
    const auto rank = static_cast<uint8_t>(__builtin_clzll(examined) + 1);
    uint8_t& most = ranks[hash >> (64 - kBits)];
    most = std::max(most, rank);
  }

  std::vector<uint8_t> ranks_;  // empty, or kRegisters
};

// Counts the values that are most frequent: exactly while there are few different ones, and
// otherwise in a sample. The result does not depend on the order of adding and merging.
class FrequentValues {
 public:
  // Up to this number of different values, all are counted.
  static constexpr size_t kCapacity = 1024;
  // Number of values in the sample.
  static constexpr size_t kSampled = 1024;
  // Maximum number of bytes of a value that are kept for display.
  static constexpr size_t kShownBytes = 48;

  // Counts a value. `bytes` is the content of a value of bytes, whose key is KeyOf(bytes). Ranks
  // are distinct random numbers: the sample consists of the values with the smallest ranks.
  void Add(uint64_t key, uint64_t rank, std::string_view bytes = {}) {
    Count(key, bytes);
    OfferToSample(key, rank, bytes);
  }
  // The same in two steps, for values that are counted later than they are sampled: numbers, and
  // bytes unless exact(). A value with a rank above limit() need not be offered to the sample.
  void OfferToSample(uint64_t key, uint64_t rank, std::string_view bytes = {}) {
    if (IsAmongSmallest(rank)) Sample(key, rank, bytes);
  }
  uint64_t limit() const {
    constexpr int kLeftOut = 64 - 8 * kRankBytes;
    return limit_ == UINT64_MAX ? limit_ : limit_ << kLeftOut | ((uint64_t{1} << kLeftOut) - 1);
  }
  void Count(uint64_t key, std::string_view bytes = {}) {
    ++total_;
    if (!exact_) {
      distinct_.Add(Spread(key));
    } else if (!counts_.AddKnown(key)) {
      CountNew(key, bytes);
    }
  }
  // Only if not exact(): counts key_of(0) to key_of(count - 1).
  template <typename KeyOf>
  void CountAll(size_t count, KeyOf key_of) {
    total_ += count;
    if (count == 0) return;
    distinct_.AddAll(count, [&](size_t i) { return Spread(key_of(i)); });
  }
  // Whether all values are counted. Ends for good when there are more than kCapacity different
  // ones.
  bool exact() const { return exact_; }
  // Whether that will end when a value with this key is added.
  bool WouldStopCounting(uint64_t key) const {
    return exact_ && counts_.size() == kCapacity && !counts_.Contains(key);
  }
  // All values, by their keys, while exact.
  KeyCounts Counted() const { return counts_.Sorted(); }
  void Merge(const FrequentValues& other);
  // States that `others` values are not added, so that values cannot be counted, only sampled.
  void LeaveOut(uint64_t others);

  // Number of values, including those left out.
  uint64_t total() const { return total_; }
  // The uncertainty of counts: three standard errors of the count of the most frequent value. 0:
  // all counts and the number of values are exact.
  uint64_t max_error() const;
  size_t size() const;
  // The number of values that were counted.
  uint64_t counted() const;
  // Number of times that a value was counted; 0 if it is not among the most frequent ones. Keys of
  // bytes are those of KeyOf.
  uint64_t CountOf(uint64_t key) const;
  // All values that were counted or are in the sample, by their keys.
  std::map<uint64_t, uint64_t> Counts() const;

  struct Entry {
    uint64_t key;
    uint64_t count;
    std::string_view text;  // the first kShownBytes of a value of bytes; borrowed
    uint64_t bytes;         // size of the whole value
  };
  // The most frequent values, at most `most`; equally frequent ones in the order of their keys.
  // Values that are too rare in a sample for their count to be meaningful are left out.
  std::vector<Entry> Top(size_t most) const;

  // Number of different values; `exact` says whether this is exact rather than an estimate.
  uint64_t Distinct(bool* exact) const;

  // Values of more than kWholeBytes are compared by their sizes and a part of their bytes.
  static constexpr size_t kWholeBytes = 1 << 10;
  static uint64_t KeyOf(std::string_view bytes);

  // Equal objects have equal codes. With `has_text`, the values are bytes. With `whole`, all of a
  // sample is written, for Merge; otherwise only the values that are in it more than once, which
  // Read completes to a sample like the original.
  void Write(StatisticsWriter& out, bool has_text, bool whole) const;
  // Fails `in` if Write cannot have written what it reads.
  void Read(StatisticsReader& in, bool has_text);

 private:
  struct Text {
    std::string shown;
    uint64_t bytes = 0;
  };
  struct Sampled {
    uint64_t rank;
    uint64_t key;

    friend auto operator<=>(const Sampled&, const Sampled&) = default;
  };

  static constexpr int kRankBytes = 6;

  bool IsAmongSmallest(uint64_t rank) const { return rank >> (64 - 8 * kRankBytes) <= limit_; }
  void CountNew(uint64_t key, std::string_view bytes);
  void Sample(uint64_t key, uint64_t rank, std::string_view bytes);
  void Note(uint64_t key, std::string_view bytes);
  void StopCounting();
  void Shrink();
  // The sample, sorted.
  std::vector<Sampled> Sorted() const;
  // How often values are in it, by their keys.
  KeyCounts InSample() const;
  uint64_t Scaled(uint64_t in_sample) const;
  void WriteKey(StatisticsWriter& out, uint64_t key, bool has_text, bool with_text) const;
  uint64_t ReadKey(StatisticsReader& in, bool has_text, bool with_text);
  void SampleCounted();
  void Complete(uint64_t sampled);

  uint64_t total_ = 0;
  // Whether counts_ has all values. Otherwise distinct_ does, and counts_ is empty.
  bool exact_ = true;
  CountTable counts_;
  DistinctCounter distinct_;
  // Unordered; the kSampled with the smallest ranks, and up to as many others until Shrink.
  std::vector<Sampled> sample_;
  // Greater ranks are not among the smallest.
  uint64_t limit_ = UINT64_MAX;
  // The values in counts_ and in the sample if they are bytes; numbers have only keys. Not a map of
  // Abseil: see CountTable.
  std::unordered_map<uint64_t, Text> texts_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_FREQUENT_VALUES_H_
