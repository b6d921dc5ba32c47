// Counts, mean and deviation of numbers, in bounded memory.

#ifndef SHARDFEED_SHARD_STATISTICS_NUMBER_HISTOGRAM_H_
#define SHARDFEED_SHARD_STATISTICS_NUMBER_HISTOGRAM_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shard/statistics/statistics_code.h"

namespace shardfeed {

// Counts numbers in buckets that divide each power of two into 128 parts, as HdrHistogram's do
// (hdrhistogram.org). The numbers of one power of two have one exponent, so that the sums of their
// mantissas and of the squares of these are integers, which are kept exactly. So nothing depends on
// the order in which numbers are added and histograms are merged.
class NumberHistogram {
 public:
  // Adds `weight` equal numbers. `value` is finite.
  void Add(double value, uint64_t weight = 1) {
    if (weight > kLight) return AddHeavy(value, weight);
    const Place place = PlaceOf(value);
    Page& page = *place.page;
    const uint64_t weighted = place.mantissa * weight;
    page.counts[place.bucket] += weight;
    page.count += weight;
    page.sum += weighted;
    page.AddWide(static_cast<unsigned __int128>(weighted) * place.mantissa, 0);
    count_ += weight;
  }
  // Adds the finite ones of `count` floats, little-endian, in half the time.
  void AddFloats(const char* floats, size_t count);
  void Merge(const NumberHistogram& other);

  uint64_t count() const { return count_; }
  // Returns the value with the rank ceil(share * count), counted from 1, or one within 0.4 % of it.
  // Whole numbers up to 256 are exact. 0 <= share <= 1; 0 without values.
  double Quantile(double share) const;
  // The mean and the standard deviation (divided by the number of values), exact except for
  // rounding. 0 without values.
  double Mean() const;
  double Deviation() const;

  // Returns the largest difference of the two distribution functions (the statistic of Kolmogorov
  // and Smirnov), at the borders of buckets. Both have values.
  static double Distance(const NumberHistogram& a, const NumberHistogram& b);

  // Equal histograms have equal codes.
  void Write(StatisticsWriter& out) const;
  // Fails `in` if Write cannot have written what it reads.
  void Read(StatisticsReader& in);

 private:
  static constexpr uint64_t kSign = uint64_t{1} << 63;
  static constexpr int kPageShift = 52;  // bits of the mantissa
  static constexpr int kBucketShift = 45;
  static constexpr uint64_t kBuckets = 128;
  static constexpr uint64_t kExponents = 0x7ff;
  // The product of such a weight and a mantissa has at most 64 bits.
  static constexpr uint64_t kLight = uint64_t{1} << (63 - kPageShift);
  static constexpr uint64_t kMantissa = (uint64_t{1} << kPageShift) - 1;

  // The numbers of one sign and one power of two.
  struct Page {
    uint32_t number = 0;
    uint64_t count = 0;
    unsigned __int128 sum = 0;
    // The sum of squares has 192 bits.
    unsigned __int128 squares = 0;
    uint64_t squares_high = 0;
    std::array<uint64_t, kBuckets> counts{};

    void AddWide(unsigned __int128 low, uint64_t high) {
      squares += low;
      squares_high += high + uint64_t{squares < low};
    }
  };
  struct Place {
    Page* page;
    size_t bucket;
    uint64_t mantissa;
  };
  struct Moments {
    long double mean;
    long double squares;  // the sum of squared differences from the mean
  };

  Place PlaceOf(double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value + 0.0);  // -0 is 0
    // In this order, integers compare as the numbers do.
    const uint64_t ordered =
        bits ^ (static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63) | kSign);
    const auto number = static_cast<uint32_t>(ordered >> kPageShift);
    const size_t place = number - first_;
    Page* page = place < places_.size() && places_[place] != 0 ? &pages_[places_[place] - 1]
                                                               : &NewPage(number);
    const bool is_normal = (bits >> kPageShift & kExponents) != 0;
    return {page, ordered >> kBucketShift & (kBuckets - 1),
            (bits & kMantissa) | uint64_t{is_normal} << kPageShift};
  }
  // Bucket i of page p has the number p << 7 | i.
  static double ValueOf(uint32_t bucket);
  static Moments MomentsOf(const Page& page);
  void AddHeavy(double value, uint64_t weight);
  Page& NewPage(uint32_t number);
  const Page* PageAt(uint32_t number) const;
  uint32_t end() const { return first_ + static_cast<uint32_t>(places_.size()); }
  Moments AllMoments() const;

  std::vector<Page> pages_;
  // One more than the place in pages_ of the page with number first_ + i; 0: there is none.
  std::vector<uint16_t> places_;
  uint32_t first_ = 0;
  uint64_t count_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_NUMBER_HISTOGRAM_H_
