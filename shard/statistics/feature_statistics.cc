#include "shard/statistics/feature_statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// Bits of floats: all but the sign, and the numbers that are not finite.
constexpr uint32_t kMagnitude = 0x7fffffff;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kNaN = 0x7fc00000;

// In this order, integers compare as finite floats do.
int32_t OrderedOf(uint32_t bits) {
  const auto sign = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);
  return static_cast<int32_t>(bits ^ (sign & kMagnitude));
}
float FloatOf(int32_t ordered) {
  return std::bit_cast<float>(OrderedOf(static_cast<uint32_t>(ordered)));  // its own inverse
}

// Both zeros are one value, and so are all NaNs.
uint32_t KeyOfFloat(uint32_t bits) {
  const uint32_t magnitude = bits & kMagnitude;
  return magnitude == 0 ? 0 : magnitude > kInfinity ? kNaN : bits;
}

// What a scan finds in floats, except for the last ones, which do not fill all lanes.
struct FloatLanes {
  static constexpr size_t kLanes = 8;

  int32_t min = INT32_MAX;  // as OrderedOf
  int32_t max = INT32_MIN;
  uint32_t zeros = 0;
  bool not_finite = false;  // whether a float is not; then nothing else holds
};

// `floats` are little-endian.
[[gnu::always_inline]] inline FloatLanes ScanLanes(const char* floats, size_t count) {
  constexpr size_t kLanes = FloatLanes::kLanes;
  using Lanes [[gnu::vector_size(kLanes * sizeof(int32_t))]] = int32_t;
  Lanes min = Lanes{} + INT32_MAX;
  Lanes max = Lanes{} + INT32_MIN;
  Lanes zeros{};
  Lanes not_finite{};
  for (size_t done = 0; done + kLanes <= count; done += kLanes) {
    Lanes bits;
    if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(&bits, floats + 4 * done, sizeof(bits));
    } else {
      for (size_t i = 0; i < kLanes; ++i) {
        bits[i] = static_cast<int32_t>(LoadLittleEndian<uint32_t>(floats + 4 * (done + i)));
      }
    }
    const Lanes magnitude = bits & static_cast<int32_t>(kMagnitude);
    const Lanes ordered = bits ^ ((bits >> 31) & static_cast<int32_t>(kMagnitude));
    min = ordered < min ? ordered : min;
    max = ordered > max ? ordered : max;
    zeros -= magnitude == 0;  // true is -1
    not_finite |= magnitude >= static_cast<int32_t>(kInfinity);
  }
  FloatLanes all;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    all.min = std::min<int32_t>(all.min, min[lane]);
    all.max = std::max<int32_t>(all.max, max[lane]);
    all.zeros += static_cast<uint32_t>(zeros[lane]);
    all.not_finite |= not_finite[lane] != 0;
  }
  return all;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] FloatLanes ScanLanesAvx2(const char* floats, size_t count) {
  return ScanLanes(floats, count);
}
#endif

uint64_t ZigZag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t code) { return static_cast<int64_t>(code >> 1 ^ (~(code & 1) + 1)); }

// A single value is looked at.
class OnePlace {
 public:
  explicit OnePlace(uint64_t seed) : seed_(seed) {}
  bool Next() const { return true; }
  uint64_t weight() const { return 1; }
  uint64_t rank() const { return seed_; }

 private:
  const uint64_t seed_;
};

// All values of a short list are looked at.
class AllPlaces {
 public:
  explicit AllPlaces(uint64_t seed) : seed_(seed) {}
  bool Next() {
    rank_ = at_ == 0 ? seed_ : Spread(seed_ + at_ * kGolden);
    ++at_;
    return true;
  }
  uint64_t weight() const { return 1; }
  uint64_t rank() const { return rank_; }

 private:
  const uint64_t seed_;
  uint64_t rank_ = 0;
  uint64_t at_ = 0;
};

// The values of a long list that are looked at: one at a random place in each of some pieces of
// equal size, so that what repeats in a list is not always missed.
class SomePlaces {
 public:
  // `count` is at least kLongList.
  SomePlaces(uint64_t count, uint64_t seed)
      : count_(count), width_(count / FeatureStatistics::kSampleOfList), seed_(seed) {
    Choose();
  }

  // Whether the next value is looked at.
  bool Next() {
    if (at_++ != chosen_) return false;
    weight_ = std::min(width_, count_ - begin_);
    rank_ = next_rank_;
    begin_ += width_;
    Choose();
    return true;
  }
  // Calls look(i) for each of the next `count` values that is looked at, counted from 0.
  template <typename Look>
  void Pass(uint64_t count, Look look) {
    const uint64_t from = at_;
    const uint64_t end = at_ + count;
    while (chosen_ < end) {
      at_ = chosen_;
      Next();
      look(at_ - 1 - from);
    }
    at_ = end;
  }
  // How many values the current one represents.
  uint64_t weight() const { return weight_; }
  // The random rank of the current value.
  uint64_t rank() const { return rank_; }
  // How many values are not looked at.
  uint64_t left_out() const { return count_ - (count_ + width_ - 1) / width_; }

 private:
  void Choose() {
    if (begin_ >= count_) {
      chosen_ = UINT64_MAX;
      return;
    }
    const uint64_t width = std::min(width_, count_ - begin_);
    const unsigned __int128 random =
        static_cast<unsigned __int128>(Spread(~seed_ + begin_ * kGolden)) * width;
    chosen_ = begin_ + static_cast<uint64_t>(random >> 64);
    // The bits that did not choose the place.
    next_rank_ = static_cast<uint64_t>(random);
  }

  const uint64_t count_;
  const uint64_t width_;
  const uint64_t seed_;
  uint64_t weight_ = 1;
  uint64_t at_ = 0;
  uint64_t begin_ = 0;  // where the piece of chosen_ begins
  uint64_t chosen_ = 0;
  uint64_t next_rank_ = 0;  // rank of the value at chosen_
  uint64_t rank_ = 0;
};

}  // namespace

[[gnu::always_inline]] inline bool FeatureStatistics::BeginKind(FeatureKind kind) {
  if (kind < kind_ || kind == FeatureKind::kNone) return false;
  if (kind > kind_) {
    *this = FeatureStatistics();
    kind_ = kind;
  }
  return true;
}

[[gnu::always_inline]] inline bool FeatureStatistics::Begin(FeatureKind kind, uint64_t count) {
  if (!BeginKind(kind)) return false;
  ++records_;
  values_ += count;
  if (count == 1) {
    ++single_;
  } else {
    lengths_.Add(static_cast<double>(count));
  }
  return true;
}

template <typename Places>
[[gnu::always_inline]] inline void FeatureStatistics::LookAt(uint64_t key, double value,
                                                             bool is_finite, Places& places) {
  if (frequent_.WouldStopCounting(key)) [[unlikely]] {
    histogram_ = CountedHistogram();
  }
  frequent_.Add(key, places.rank());
  if (!frequent_.exact() && is_finite) histogram_.Add(value, places.weight());
}

template <typename Places>
[[gnu::always_inline]] inline void FeatureStatistics::AddInt(int64_t value, Places& places) {
  min_int_ = std::min(min_int_, value);
  max_int_ = std::max(max_int_, value);
  zeros_ += value == 0;
  if (!places.Next()) return;
  LookAt(static_cast<uint64_t>(value), static_cast<double>(value), true, places);
}

[[gnu::always_inline]] inline void FeatureStatistics::ScanFloat(uint32_t bits) {
  const uint32_t magnitude = bits & kMagnitude;
  if (magnitude < kInfinity) {
    const double value = std::bit_cast<float>(bits) + 0.0;  // -0 is 0
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    zeros_ += magnitude == 0;
  } else if (magnitude == kInfinity) {
    ++infinite_;
  } else {
    ++nan_;
  }
}

void FeatureStatistics::ScanFloats(const char* floats, size_t count) {
  FloatLanes lanes;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    lanes = ScanLanesAvx2(floats, count);
  } else
#endif
    lanes = ScanLanes(floats, count);
  size_t done = count - count % FloatLanes::kLanes;
  if (lanes.not_finite) {
    done = 0;
  } else if (done > 0) {
    for (const int32_t ordered : {lanes.min, lanes.max}) {
      const double value = FloatOf(ordered) + 0.0;
      min_ = std::min(min_, value);
      max_ = std::max(max_, value);
    }
    zeros_ += lanes.zeros;
  }
  for (; done < count; ++done) ScanFloat(LoadLittleEndian<uint32_t>(floats + 4 * done));
}

template <typename Places>
[[gnu::always_inline]] inline void FeatureStatistics::LookAtFloat(uint32_t bits, Places& places) {
  const bool is_finite = (bits & kMagnitude) < kInfinity;
  LookAt(KeyOfFloat(bits), std::bit_cast<float>(bits), is_finite, places);
}

template <typename Places>
[[gnu::always_inline]] inline void FeatureStatistics::AddFloat(uint32_t bits, Places& places) {
  ScanFloat(bits);
  if (places.Next()) LookAtFloat(bits, places);
}

template <typename Places>
[[gnu::always_inline]] inline void FeatureStatistics::AddBytes(std::string_view value,
                                                               Places& places) {
  if (places.Next()) {
    frequent_.Add(KeyOf(value), places.rank(), value);
  } else {
    total_bytes_ += value.size();
  }
}

template <typename Places>
void FeatureStatistics::AddFeature(const RecordFeature& feature, Places places) {
  if (kind_ == FeatureKind::kInt64) {
    for (int64_t value : feature.ints) AddInt(value, places);
  } else if (kind_ == FeatureKind::kFloat) {
    for (float value : feature.floats) AddFloat(std::bit_cast<uint32_t>(value), places);
  } else {
    for (std::string_view value : feature.bytes) AddBytes(value, places);
  }
}

template <typename Places>
[[gnu::always_inline]] inline void FeatureStatistics::AddSpans(const char* record,
                                                               absl::Span<const ValueSpan> spans,
                                                               Places places) {
  for (const ValueSpan& span : spans) {
    const char* at = record + span.begin;
    const char* const end = record + span.end;
    if (kind_ == FeatureKind::kInt64) {
      while (at < end) {
        const WireNumber number = ReadVarint(at, end);
        if (number.end == nullptr) break;
        AddInt(static_cast<int64_t>(number.value), places);
        at = number.end;
      }
    } else if (kind_ == FeatureKind::kFloat) {
      if constexpr (std::is_same_v<Places, SomePlaces>) {
        const size_t count = (span.end - span.begin) / 4;
        ScanFloats(at, count);
        places.Pass(count, [&](uint64_t i) {
          LookAtFloat(LoadLittleEndian<uint32_t>(at + 4 * i), places);
        });
      } else {
        for (; at < end; at += 4) AddFloat(LoadLittleEndian<uint32_t>(at), places);
      }
    } else {
      AddBytes({at, span.end - span.begin}, places);
    }
  }
}

void FeatureStatistics::LeaveOut(uint64_t others) {
  if (frequent_.exact()) histogram_ = CountedHistogram();
  frequent_.LeaveOut(others);
}

NumberHistogram FeatureStatistics::CountedHistogram() const {
  NumberHistogram counted;
  if (kind_ == FeatureKind::kBytes) return counted;
  for (const auto& [key, count] : frequent_.Counted()) {
    const double value = NumberOf(key);
    if (std::isfinite(value)) counted.Add(value, count);
  }
  return counted;
}

void FeatureStatistics::Add(const RecordFeature& feature, uint64_t seed) {
  const size_t count = feature.kind == FeatureKind::kInt64   ? feature.ints.size()
                       : feature.kind == FeatureKind::kFloat ? feature.floats.size()
                                                             : feature.bytes.size();
  if (!Begin(feature.kind, count)) return;
  if (count < kLongList) {
    AddFeature(feature, AllPlaces(seed));
  } else {
    const SomePlaces places(count, seed);
    LeaveOut(places.left_out());
    AddFeature(feature, places);
  }
}

void FeatureStatistics::Add(FeatureKind kind, std::string_view record,
                            absl::Span<const ValueSpan> spans, uint64_t count, uint64_t seed) {
  if (!Begin(kind, count)) return;
  if (count == 1) {
    AddSpans(record.data(), spans, OnePlace(seed));
  } else if (count < kLongList) {
    AddSpans(record.data(), spans, AllPlaces(seed));
  } else {
    const SomePlaces places(count, seed);
    LeaveOut(places.left_out());
    AddSpans(record.data(), spans, places);
  }
}

uint64_t FeatureStatistics::SeedLimit(FeatureKind kind) {
  // Values that do not count need not be offered.
  return BeginKind(kind) ? frequent_.limit() : 0;
}

bool FeatureStatistics::TakesSingleBytes() {
  return BeginKind(FeatureKind::kBytes) && !frequent_.exact();
}

uint64_t FeatureStatistics::Offer(FeatureKind kind, const char* single, uint64_t seed,
                                  std::string_view bytes) {
  if (kind != kind_) return 0;
  frequent_.OfferToSample(kind == FeatureKind::kFloat
                              ? KeyOfFloat(LoadLittleEndian<uint32_t>(single))
                              : LoadLittleEndian<uint64_t>(single),
                          seed, bytes);
  return frequent_.limit();
}

// Each loop waits for memory: the shorter its body is, and the less memory it uses, the better.
void FeatureStatistics::AddSingles(FeatureKind kind, const char* singles, size_t count) {
  if (!BeginKind(kind)) return;
  records_ += count;
  values_ += count;
  single_ += count;
  const bool floats = kind == FeatureKind::kFloat;
  const auto bits_at = [singles](size_t i) { return LoadLittleEndian<uint32_t>(singles + 4 * i); };
  const auto word_at = [singles](size_t i) { return LoadLittleEndian<uint64_t>(singles + 8 * i); };
  if (floats) {
    ScanFloats(singles, count);
  } else if (kind == FeatureKind::kInt64) {
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<int64_t>(word_at(i));
      min_int_ = std::min(min_int_, value);
      max_int_ = std::max(max_int_, value);
      zeros_ += value == 0;
    }
  }
  const auto key_at = [&](size_t i) { return floats ? KeyOfFloat(bits_at(i)) : word_at(i); };
  size_t counted = 0;
  size_t in_histogram = 0;
  for (; counted < count && frequent_.exact(); ++counted) {
    const uint64_t key = key_at(counted);
    if (frequent_.WouldStopCounting(key)) [[unlikely]] {
      histogram_ = CountedHistogram();
      in_histogram = counted;
    }
    frequent_.Count(key);
  }
  if (frequent_.exact()) return;
  const size_t others = count - counted;
  if (floats) {
    frequent_.CountAll(others, [&](size_t i) { return KeyOfFloat(bits_at(counted + i)); });
    histogram_.AddFloats(singles + 4 * in_histogram, count - in_histogram);
    return;
  }
  frequent_.CountAll(others, [&](size_t i) { return word_at(counted + i); });
  if (kind == FeatureKind::kBytes) return;
  for (size_t i = in_histogram; i < count; ++i) {
    histogram_.Add(static_cast<double>(static_cast<int64_t>(word_at(i))));
  }
}

void FeatureStatistics::Merge(const FeatureStatistics& other) {
  if (other.kind_ < kind_ || other.kind_ == FeatureKind::kNone) return;
  if (other.kind_ > kind_) {
    *this = FeatureStatistics();
    kind_ = other.kind_;
  }
  records_ += other.records_;
  values_ += other.values_;
  nan_ += other.nan_;
  infinite_ += other.infinite_;
  zeros_ += other.zeros_;
  total_bytes_ += other.total_bytes_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  min_int_ = std::min(min_int_, other.min_int_);
  max_int_ = std::max(max_int_, other.max_int_);
  single_ += other.single_;
  lengths_.Merge(other.lengths_);
  images_.Merge(other.images_);
  NumberHistogram both = histogram();
  both.Merge(other.histogram());
  frequent_.Merge(other.frequent_);
  if (!frequent_.exact()) histogram_ = std::move(both);
}

NumberHistogram FeatureStatistics::lengths() const {
  NumberHistogram all = lengths_;
  if (single_ > 0) all.Add(1, single_);
  return all;
}

double FeatureStatistics::Quantile(double share) const {
  if (!has_numbers()) return 0;
  if (!frequent_.exact()) return std::clamp(histogram_.Quantile(share), min(), max());
  std::vector<std::pair<double, uint64_t>> counts;
  for (const FrequentValues::Entry& entry : frequent_.Top(frequent_.size())) {
    const double value = NumberOf(entry.key);
    if (std::isfinite(value)) counts.emplace_back(value, entry.count);
  }
  std::sort(counts.begin(), counts.end());
  const double rank = std::ceil(share * static_cast<double>(histogram().count()));
  uint64_t passed = 0;
  for (const auto& [value, count] : counts) {
    passed += count;
    if (static_cast<double>(passed) >= rank) return value;
  }
  return max();
}

double FeatureStatistics::NumberOf(uint64_t key) const {
  if (kind_ == FeatureKind::kInt64) return static_cast<double>(static_cast<int64_t>(key));
  return std::bit_cast<float>(static_cast<uint32_t>(key));
}

std::string FeatureStatistics::TextOf(const FrequentValues::Entry& entry) const {
  if (kind_ == FeatureKind::kInt64) return fmt::format("{}", static_cast<int64_t>(entry.key));
  if (kind_ == FeatureKind::kFloat) {
    return fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(entry.key)));
  }
  return std::string(entry.text);
}

void FeatureStatistics::Write(StatisticsWriter& out, bool whole) const {
  out.Number(static_cast<uint64_t>(kind_));
  out.Number(records_);
  out.Number(values_);
  out.Number(single_);
  lengths_.Write(out);
  if (kind_ == FeatureKind::kBytes) {
    out.Number(total_bytes_);
    images_.Write(out);
  } else {
    out.Number(zeros_);
    out.Number(nan_);
    out.Number(infinite_);
    if (kind_ == FeatureKind::kInt64) {
      out.Number(ZigZag(min_int_));
      out.Number(ZigZag(max_int_));
    } else {
      out.Double(min_);
      out.Double(max_);
    }
  }
  frequent_.Write(out, kind_ == FeatureKind::kBytes, whole);
  if (!frequent_.exact() && kind_ != FeatureKind::kBytes) histogram_.Write(out);
}

void FeatureStatistics::Read(StatisticsReader& in, uint64_t records) {
  *this = FeatureStatistics();
  const uint64_t kind = in.Number(static_cast<uint64_t>(FeatureKind::kInt64));
  in.Expect(kind != 0);
  kind_ = static_cast<FeatureKind>(kind);
  // A name may appear twice in a SequenceExample, as a context feature and as a feature list.
  records_ = in.Number(std::min(kMaxStatisticsCount, records) * 2);
  values_ = in.Number();
  single_ = in.Number(records_);
  lengths_.Read(in);
  in.Expect(lengths_.count() == records_ - single_);
  uint64_t finite = values_;
  if (kind_ == FeatureKind::kBytes) {
    total_bytes_ = in.Number();
    images_.Read(in);
    in.Expect(images_.count() <= values_);
  } else {
    zeros_ = in.Number(values_);
    nan_ = in.Number(values_ - zeros_);
    infinite_ = in.Number(values_ - zeros_ - nan_);
    finite = values_ - nan_ - infinite_;
    if (kind_ == FeatureKind::kInt64) {
      min_int_ = UnZigZag(in.Number(UINT64_MAX));
      max_int_ = UnZigZag(in.Number(UINT64_MAX));
      in.Expect(values_ == 0 ? min_int_ == FeatureStatistics().min_int_ &&
                                   max_int_ == FeatureStatistics().max_int_
                             : min_int_ <= max_int_);
      in.Expect(nan_ == 0 && infinite_ == 0);
    } else {
      min_ = in.Double();
      max_ = in.Double();
      in.Expect(finite == 0 ? min_ == FeatureStatistics().min_ && max_ == FeatureStatistics().max_
                            : std::isfinite(min_) && std::isfinite(max_) && min_ <= max_);
    }
  }
  frequent_.Read(in, kind_ == FeatureKind::kBytes);
  in.Expect(frequent_.total() == values_);
  if (kind_ != FeatureKind::kBytes) {
    if (!frequent_.exact()) histogram_.Read(in);
    const uint64_t looked_at = histogram().count();
    in.Expect(frequent_.exact() ? looked_at == finite : looked_at <= values_);
  }
  if (!in.ok()) *this = FeatureStatistics();
}

}  // namespace shardfeed
