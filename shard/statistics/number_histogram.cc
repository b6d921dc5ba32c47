#include "shard/statistics/number_histogram.h"

#include <algorithm>
#include <cmath>

#include "base/little_endian.h"

namespace shardfeed {
namespace {

using Wide = unsigned __int128;

// An unsigned integer of 192 bits.
struct Wider {
  Wide low;
  uint64_t high;
};

Wider Product(uint64_t a, Wide b) {
  const Wide low = Wide{a} * static_cast<uint64_t>(b);
  const Wide high = Wide{a} * static_cast<uint64_t>(b >> 64) + (low >> 64);
  return {high << 64 | static_cast<uint64_t>(low), static_cast<uint64_t>(high >> 64)};
}

Wider Difference(Wider a, Wider b) {
  return {a.low - b.low, a.high - b.high - uint64_t{a.low < b.low}};
}

// The power of two of the last bit of a mantissa.
int UnitOf(uint32_t exponent) { return static_cast<int>(std::max<uint32_t>(exponent, 1)) - 1075; }

bool IsLess(Wider a, Wider b) { return a.high != b.high ? a.high < b.high : a.low < b.low; }

long double ToFloating(Wider a) {
  return std::ldexp(static_cast<long double>(a.high), 128) + static_cast<long double>(a.low);
}

}  // namespace

double NumberHistogram::ValueOf(uint32_t bucket) {
  const bool negative = bucket < kSign >> kBucketShift;
  const uint64_t all = (uint64_t{1} << (64 - kBucketShift)) - 1;
  const uint64_t magnitude = (negative ? ~uint64_t{bucket} & all : bucket) & (all >> 1);
  const double least = std::bit_cast<double>(magnitude << kBucketShift);
  const double next = std::bit_cast<double>((magnitude + 1) << kBucketShift);
  // A bucket of width 1 or less has one whole number, at its border.
  double value = least;
  if (next - least > 1 || least != std::floor(least)) value = least + (next - least) / 2;
  return negative ? -value : value;
}

void NumberHistogram::AddHeavy(double value, uint64_t weight) {
  const Place place = PlaceOf(value);
  Page& page = *place.page;
  page.counts[place.bucket] += weight;
  page.count += weight;
  page.sum += Wide{place.mantissa} * weight;
  const Wider squares = Product(weight, Wide{place.mantissa} * place.mantissa);
  page.AddWide(squares.low, squares.high);
  count_ += weight;
}

void NumberHistogram::AddFloats(const char* floats, size_t count) {
  // Normal floats of one sign and exponent are those of one page. So many mantissas of 24 bits have
  // a sum of 40 bits, and one of squares of 64.
  constexpr size_t kMost = size_t{1} << 16;
  constexpr int kFractionBits = 23;
  constexpr uint32_t kImplicit = uint32_t{1} << kFractionBits;
  constexpr uint32_t kMaxExponent = 0xff;
  constexpr int kShift = kPageShift - kFractionBits;
  constexpr int kSumBits = 40;
  struct Sums {
    uint64_t sum;  // the sum and, above its kSumBits bits, the number of mantissas
    uint64_t squares;
  };
  std::array<uint64_t*, 2 * (kMaxExponent + 1)> counts;  // counts of each page; null: none so far
  std::array<Sums, counts.size()> sums;
  std::array<std::pair<uint16_t, uint16_t>, counts.size()>
      used;  // pages used, and their places in pages_
  uint64_t zeros = 0;
  for (size_t done = 0; done < count;) {
    const size_t end = std::min(count, done + kMost - 1);
    size_t num_used = 0;
    counts.fill(nullptr);
    for (; done < end; ++done) {
      const auto bits = LoadLittleEndian<uint32_t>(floats + 4 * done);
      const uint32_t number = bits >> kFractionBits;
      if (counts[number] == nullptr) [[unlikely]] {
        const uint32_t exponent = number & kMaxExponent;
        if (exponent == kMaxExponent) continue;
        if (bits << 1 == 0) {
          ++zeros;
          continue;
        }
        const float value = std::bit_cast<float>(bits);
        if (exponent == 0) {
          Add(value);  // as a double, it is a normal number
        } else {
          const Place place = PlaceOf(value);
          sums[number] = {0, 0};
          used[num_used++] = {static_cast<uint16_t>(number),
                              static_cast<uint16_t>(place.page - pages_.data())};
        }
        // A new page may have moved the others.
        for (size_t i = 0; i < num_used; ++i) {
          counts[used[i].first] = pages_[used[i].second].counts.data();
        }
        if (exponent == 0) continue;
      }
      const uint64_t mantissa = (bits & (kImplicit - 1)) | kImplicit;
      sums[number].sum += mantissa | uint64_t{1} << kSumBits;
      sums[number].squares += mantissa * mantissa;
      // The buckets of negative numbers rise with the numbers, too.
      const uint32_t ordered = bits ^ static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);
      ++counts[number][ordered >> (kBucketShift - kShift) & (kBuckets - 1)];
    }
    for (size_t i = 0; i < num_used; ++i) {
      const auto [sum, squares] = sums[used[i].first];
      Page& page = pages_[used[i].second];
      page.count += sum >> kSumBits;
      page.sum += Wide{sum & ((uint64_t{1} << kSumBits) - 1)} << kShift;
      page.AddWide(Wide{squares} << (2 * kShift), 0);
      count_ += sum >> kSumBits;
    }
  }
  if (zeros > 0) Add(0, zeros);
}

NumberHistogram::Page& NumberHistogram::NewPage(uint32_t number) {
  if (places_.empty()) first_ = number;
  if (number < first_) {
    places_.insert(places_.begin(), first_ - number, 0);
    first_ = number;
  }
  if (number >= end()) places_.resize(number - first_ + 1);
  uint16_t& place = places_[number - first_];
  if (place == 0) {
    pages_.emplace_back().number = number;
    place = static_cast<uint16_t>(pages_.size());
  }
  return pages_[place - 1];
}

const NumberHistogram::Page* NumberHistogram::PageAt(uint32_t number) const {
  const size_t place = number - first_;
  if (place >= places_.size() || places_[place] == 0) return nullptr;
  return &pages_[places_[place] - 1];
}

void NumberHistogram::Merge(const NumberHistogram& other) {
  for (const Page& theirs : other.pages_) {
    Page& ours = NewPage(theirs.number);
    for (size_t i = 0; i < kBuckets; ++i) ours.counts[i] += theirs.counts[i];
    ours.count += theirs.count;
    ours.sum += theirs.sum;
    ours.AddWide(theirs.squares, theirs.squares_high);
  }
  count_ += other.count_;
}

double NumberHistogram::Quantile(double share) const {
  if (count_ == 0) return 0;
  const auto rank = std::clamp<uint64_t>(std::ceil(share * static_cast<double>(count_)), 1, count_);
  uint64_t passed = 0;
  for (uint32_t number = first_; number < end(); ++number) {
    const Page* page = PageAt(number);
    if (page == nullptr) continue;
    if (passed + page->count < rank) {
      passed += page->count;
      continue;
    }
    for (uint32_t i = 0; i < kBuckets; ++i) {
      passed += page->counts[i];
      if (passed >= rank) return ValueOf(number << 7 | i);
    }
  }
  return 0;
}

NumberHistogram::Moments NumberHistogram::MomentsOf(const Page& page) {
  // With the sum of n integers m = q * n + r, the sum of (m - q)^2 is that of m^2 less
  // q * (sum + r), which is exact.
  const auto q = static_cast<uint64_t>(page.sum / page.count);
  const auto r = static_cast<uint64_t>(page.sum % page.count);
  const Wider around = Difference({page.squares, page.squares_high}, Product(q, page.sum + r));
  const auto count = static_cast<long double>(page.count);
  const long double rest = static_cast<long double>(r);
  long double squares = ToFloating(around) - rest * (rest / count);
  long double mean = static_cast<long double>(q) + rest / count;
  const bool negative = page.number <= kExponents;
  const uint32_t exponent = (negative ? ~page.number : page.number) & kExponents;
  const int unit = UnitOf(exponent);
  mean = std::ldexp(negative ? -mean : mean, unit);
  squares = std::ldexp(std::max<long double>(squares, 0), 2 * unit);
  return {mean, squares};
}

NumberHistogram::Moments NumberHistogram::AllMoments() const {
  // Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
  // variances" (1979), in the order of the pages' numbers.
  Moments all{0, 0};
  long double before = 0;
  for (uint32_t number = first_; number < end(); ++number) {
    const Page* page = PageAt(number);
    if (page == nullptr || page->count == 0) continue;
    const Moments one = MomentsOf(*page);
    const auto count = static_cast<long double>(page->count);
    const long double difference = one.mean - all.mean;
    const long double sum = before + count;
    all.mean += difference * (count / sum);
    all.squares += one.squares + difference * difference * (before / sum) * count;
    before = sum;
  }
  return all;
}

double NumberHistogram::Mean() const {
  // Large numbers that cancel each other do so before small ones are added.
  long double sum = 0;
  for (uint32_t exponent = kExponents; exponent-- > 0;) {
    const Page* negative = PageAt(kExponents - exponent);
    const Page* positive = PageAt(kExponents + 1 + exponent);
    const Wide less = negative == nullptr ? 0 : negative->sum;
    const Wide more = positive == nullptr ? 0 : positive->sum;
    if (less == more) continue;
    const auto size = static_cast<long double>(more > less ? more - less : less - more);
    sum += std::ldexp(more > less ? size : -size, UnitOf(exponent));
  }
  return count_ == 0 ? 0 : static_cast<double>(sum / static_cast<long double>(count_));
}

double NumberHistogram::Deviation() const {
  if (count_ == 0) return 0;
  return static_cast<double>(std::sqrt(AllMoments().squares / static_cast<long double>(count_)));
}

double NumberHistogram::Distance(const NumberHistogram& a, const NumberHistogram& b) {
  const uint32_t begin = std::min(a.first_, b.first_);
  const uint32_t end = std::max(a.end(), b.end());
  double distance = 0;
  uint64_t below_a = 0;
  uint64_t below_b = 0;
  for (uint32_t number = begin; number < end; ++number) {
    const Page* in_a = a.PageAt(number);
    const Page* in_b = b.PageAt(number);
    if (in_a == nullptr && in_b == nullptr) continue;
    for (size_t i = 0; i < kBuckets; ++i) {
      if (in_a != nullptr) below_a += in_a->counts[i];
      if (in_b != nullptr) below_b += in_b->counts[i];
      distance = std::max(distance, std::abs(static_cast<double>(below_a) / a.count_ -
                                             static_cast<double>(below_b) / b.count_));
    }
  }
  return distance;
}

void NumberHistogram::Write(StatisticsWriter& out) const {
  out.Number(pages_.size());
  for (uint32_t number = first_; number < end(); ++number) {
    const Page* page = PageAt(number);
    if (page == nullptr) continue;
    out.Number(number);
    // Most pages have few buckets: write how many are empty before each that is not.
    size_t used = 0;
    for (uint64_t count : page->counts) used += count > 0;
    out.Number(used);
    size_t next = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      if (page->counts[i] == 0) continue;
      out.Number(i - next);
      out.Number(page->counts[i]);
      next = i + 1;
    }
    out.Number(page->sum);
    out.Number(page->squares_high);
    out.Number(page->squares);
  }
}

void NumberHistogram::Read(StatisticsReader& in) {
  *this = NumberHistogram();
  const uint64_t num_pages = in.Number(2 * (kExponents + 1));
  for (uint64_t p = 0; p < num_pages && in.ok(); ++p) {
    const auto number = static_cast<uint32_t>(in.Number(2 * kExponents + 1));
    const bool negative = number <= kExponents;
    const uint32_t exponent = (negative ? ~number : number) & kExponents;
    // Pages rise, and none is that of infinite values.
    in.Expect((p == 0 || number >= end()) && exponent != kExponents);
    const uint64_t used = in.Number(kBuckets);
    in.Expect(used > 0);
    if (!in.ok()) return;
    Page& page = NewPage(number);
    size_t next = 0;
    for (uint64_t i = 0; i < used && in.ok(); ++i) {
      const size_t bucket = next + in.Number(kBuckets);
      const uint64_t count = in.Number();
      in.Expect(bucket < kBuckets && count > 0 && count <= kMaxStatisticsCount - count_);
      if (!in.ok()) return;
      page.counts[bucket] = count;
      page.count += count;
      count_ += count;
      next = bucket + 1;
    }
    page.sum = in.Wide();
    page.squares_high = in.Number(UINT64_MAX);
    page.squares = in.Wide();
    if (!in.ok()) return;
    // The sum lies between those of the least and of the greatest mantissas, and no squares are
    // less than those of equal numbers.
    const uint64_t least = exponent == 0 ? 0 : kMantissa + 1;
    in.Expect(page.sum >= Wide{page.count} * least &&
              page.sum <= Wide{page.count} * (least + kMantissa));
    if (!in.ok()) return;
    const auto q = static_cast<uint64_t>(page.sum / page.count);
    const auto r = static_cast<uint64_t>(page.sum % page.count);
    const Wider squares{page.squares, page.squares_high};
    const Wider fewest = Product(q, page.sum + r);
    in.Expect(!IsLess(squares, fewest) &&
              !IsLess(Product(page.count, Wide{least + kMantissa} * (least + kMantissa)), squares));
  }
  if (!in.ok()) *this = NumberHistogram();
}

}  // namespace shardfeed
