#include "shard/feature_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "xxhash.h"

namespace shardfeed {
namespace {

// The bits of a double below its sign, its exponent and the first seven bits of its mantissa.
constexpr int kBucketShift = 45;
constexpr uint64_t kSign = uint64_t{1} << 63;

uint64_t HashOf(uint64_t key) { return XXH3_64bits(&key, sizeof(key)); }

}  // namespace

uint32_t NumberHistogram::BucketOf(double value) {
  if (value == 0) value = 0;  // -0 is 0
  const auto bits = std::bit_cast<uint64_t>(value);
  // In this order, integers compare as the numbers do.
  const uint64_t ordered = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return static_cast<uint32_t>(ordered >> kBucketShift);
}

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

void NumberHistogram::Cover(uint32_t first, uint32_t last) {
  if (counts_.empty()) {
    first_ = first;
    counts_.resize(last - first + 1);
    return;
  }
  if (first < first_) {
    // Grow by half at least, so that falling numbers do not move the counts each time.
    const auto room = static_cast<uint32_t>(std::min<size_t>(first, counts_.size() / 2));
    const uint32_t begin = std::min(first, first_ > room ? first_ - room : 0);
    counts_.insert(counts_.begin(), first_ - begin, 0);
    first_ = begin;
  }
  if (last - first_ >= counts_.size()) counts_.resize(last - first_ + 1);
}

void NumberHistogram::Add(double value) {
  const uint32_t bucket = BucketOf(value);
  if (bucket - first_ >= counts_.size()) Cover(bucket, bucket);
  ++counts_[bucket - first_];
  ++count_;
}

void NumberHistogram::Merge(const NumberHistogram& other) {
  if (other.count_ == 0) return;
  Cover(other.first_, other.first_ + static_cast<uint32_t>(other.counts_.size()) - 1);
  for (size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[other.first_ - first_ + i] += other.counts_[i];
  }
  count_ += other.count_;
}

double NumberHistogram::Quantile(double share) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
  uint64_t passed = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    passed += counts_[i];
    if (passed > 0 && passed >= rank) return ValueOf(first_ + static_cast<uint32_t>(i));
  }
  return ValueOf(first_ + static_cast<uint32_t>(counts_.size()) - 1);
}

double NumberHistogram::Distance(const NumberHistogram& a, const NumberHistogram& b) {
  const uint64_t begin = std::min(a.first_, b.first_);
  const uint64_t end = std::max(a.first_ + a.counts_.size(), b.first_ + b.counts_.size());
  const auto at = [](const NumberHistogram& h, uint64_t bucket) {
    return bucket >= h.first_ && bucket - h.first_ < h.counts_.size() ? h.counts_[bucket - h.first_]
                                                                      : 0;
  };
  double distance = 0;
  uint64_t below_a = 0;
  uint64_t below_b = 0;
  for (uint64_t bucket = begin; bucket < end; ++bucket) {
    below_a += at(a, bucket);
    below_b += at(b, bucket);
    distance = std::max(distance, std::abs(static_cast<double>(below_a) / a.count_ -
                                           static_cast<double>(below_b) / b.count_));
  }
  return distance;
}

uint64_t FrequentValues::KeyOf(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void FrequentValues::Add(uint64_t key, std::string_view bytes) {
  const auto [it, added] = counts_.try_emplace(key);
  ++it->second.count;
  if (!added) return;
  it->second.text = bytes.substr(0, kShownBytes);
  it->second.bytes = bytes.size();
  if (counts_.size() > 2 * kCapacity) Prune();
}

void FrequentValues::Prune() {
  if (counts_.size() <= kCapacity) return;
  std::vector<uint64_t> sorted;
  sorted.reserve(counts_.size());
  for (const auto& [key, counted] : counts_) sorted.push_back(counted.count);
  std::nth_element(sorted.begin(), sorted.begin() + kCapacity, sorted.end(), std::greater<>());
  const uint64_t removed = sorted[kCapacity];
  absl::erase_if(counts_, [&](const auto& one) { return one.second.count <= removed; });
  for (auto& [key, counted] : counts_) counted.count -= removed;
  max_error_ += removed;
}

void FrequentValues::Merge(const FrequentValues& other) {
  for (const auto& [key, theirs] : other.counts_) {
    const auto [it, added] = counts_.try_emplace(key, theirs);
    if (!added) it->second.count += theirs.count;
  }
  max_error_ += other.max_error_;
  Prune();
}

uint64_t FrequentValues::CountOf(uint64_t key) const {
  const auto it = counts_.find(key);
  return it == counts_.end() ? 0 : it->second.count;
}

std::vector<FrequentValues::Entry> FrequentValues::Top(size_t most) const {
  std::vector<Entry> entries;
  entries.reserve(counts_.size());
  for (const auto& [key, counted] : counts_) {
    entries.push_back({key, counted.count, counted.text, counted.bytes});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(b.count, a.key) < std::pair(a.count, b.key);
  });
  if (entries.size() > most) entries.resize(most);
  return entries;
}

void DistinctCounter::Add(uint64_t hash) {
  if (ranks_.empty()) ranks_.resize(size_t{1} << kBits);
  uint8_t& rank = ranks_[hash >> (64 - kBits)];
  // The bit behind those that are looked at ends the count.
  const int zeros = std::countl_zero(hash << kBits | uint64_t{1} << (kBits - 1));
  rank = std::max(rank, static_cast<uint8_t>(zeros + 1));
}

void DistinctCounter::Merge(const DistinctCounter& other) {
  if (other.ranks_.empty()) return;
  if (ranks_.empty()) ranks_.resize(other.ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i] = std::max(ranks_[i], other.ranks_[i]);
}

double DistinctCounter::Estimate() const {
  if (ranks_.empty()) return 0;
  const auto registers = static_cast<double>(ranks_.size());
  double sum = 0;
  double unused = 0;
  for (uint8_t rank : ranks_) {
    sum += std::ldexp(1, -rank);
    unused += rank == 0;
  }
  const double estimate = 0.7213 / (1 + 1.079 / registers) * registers * registers / sum;
  // Linear counting is better while many registers are unused.
  if (estimate <= 2.5 * registers && unused > 0) return registers * std::log(registers / unused);
  return estimate;
}

void FeatureStatistics::AddNumbers(const double* values, size_t count) {
  if (count == 0) return;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    histogram_.Add(values[i]);
    min_ = std::min(min_, values[i]);
    max_ = std::max(max_, values[i]);
    zeros_ += values[i] == 0;
    sum += values[i];
  }
  // Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
  // variances" (1979): the list's own mean and squares are merged with those so far.
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += (values[i] - mean) * (values[i] - mean);
  const auto all = static_cast<double>(histogram_.count());
  const double before = all - static_cast<double>(count);
  const double difference = mean - mean_;
  mean_ += difference * static_cast<double>(count) / all;
  squares_ += squares + difference * difference * before * static_cast<double>(count) / all;
}

void FeatureStatistics::Add(const RecordFeature& feature) {
  if (feature.kind == FeatureKind::kNone) return;
  if (kind_ == FeatureKind::kNone) kind_ = feature.kind;
  if (feature.kind != kind_) return;
  ++records_;
  numbers_.clear();
  if (kind_ == FeatureKind::kInt64) {
    values_ += feature.ints.size();
    for (int64_t value : feature.ints) {
      min_int_ = std::min(min_int_, value);
      max_int_ = std::max(max_int_, value);
      numbers_.push_back(static_cast<double>(value));
      frequent_.Add(static_cast<uint64_t>(value));
      distinct_.Add(HashOf(static_cast<uint64_t>(value)));
    }
  } else if (kind_ == FeatureKind::kFloat) {
    values_ += feature.floats.size();
    for (float value : feature.floats) {
      // All NaNs are one value, and so are both zeros.
      const float one = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN()
                        : value == 0      ? 0
                                          : value;
      const uint64_t key = std::bit_cast<uint32_t>(one);
      frequent_.Add(key);
      distinct_.Add(HashOf(key));
      if (std::isnan(value)) {
        ++nan_;
      } else if (std::isinf(value)) {
        ++infinite_;
      } else {
        numbers_.push_back(value);
      }
    }
  } else {
    values_ += feature.bytes.size();
    for (std::string_view value : feature.bytes) {
      total_bytes_ += value.size();
      const uint64_t key = FrequentValues::KeyOf(value);
      frequent_.Add(key, value);
      distinct_.Add(key);
    }
  }
  AddNumbers(numbers_.data(), numbers_.size());
}

void FeatureStatistics::Merge(const FeatureStatistics& other) {
  if (other.kind_ == FeatureKind::kNone) return;
  if (kind_ == FeatureKind::kNone) kind_ = other.kind_;
  if (other.kind_ != kind_) return;
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
  if (other.histogram_.count() > 0) {
    const auto ours = static_cast<double>(histogram_.count());
    const auto theirs = static_cast<double>(other.histogram_.count());
    const double difference = other.mean_ - mean_;
    mean_ += difference * theirs / (ours + theirs);
    squares_ += other.squares_ + difference * difference * ours * theirs / (ours + theirs);
  }
  histogram_.Merge(other.histogram_);
  frequent_.Merge(other.frequent_);
  distinct_.Merge(other.distinct_);
}

double FeatureStatistics::deviation() const {
  return has_numbers() ? std::sqrt(squares_ / static_cast<double>(histogram_.count())) : 0;
}

double FeatureStatistics::Quantile(double share) const {
  if (!has_numbers()) return 0;
  if (frequent_.max_error() > 0) return std::clamp(histogram_.Quantile(share), min_, max_);
  std::vector<std::pair<double, uint64_t>> counts;
  for (const FrequentValues::Entry& entry : frequent_.Top(frequent_.size())) {
    const double value = NumberOf(entry);
    if (std::isfinite(value)) counts.emplace_back(value, entry.count);
  }
  std::sort(counts.begin(), counts.end());
  const double rank = std::ceil(share * static_cast<double>(histogram_.count()));
  uint64_t passed = 0;
  for (const auto& [value, count] : counts) {
    passed += count;
    if (static_cast<double>(passed) >= rank) return value;
  }
  return max_;
}

double FeatureStatistics::NumberOf(const FrequentValues::Entry& entry) const {
  if (kind_ == FeatureKind::kInt64) return static_cast<double>(static_cast<int64_t>(entry.key));
  return std::bit_cast<float>(static_cast<uint32_t>(entry.key));
}

std::string FeatureStatistics::TextOf(const FrequentValues::Entry& entry) const {
  if (kind_ == FeatureKind::kInt64) return fmt::format("{}", static_cast<int64_t>(entry.key));
  if (kind_ == FeatureKind::kFloat) {
    return fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(entry.key)));
  }
  return std::string(entry.text);
}

uint64_t FeatureStatistics::Distinct(bool* exact) const {
  *exact = frequent_.max_error() == 0;
  if (*exact) return frequent_.size();
  return std::min(values_, static_cast<uint64_t>(std::llround(distinct_.Estimate())));
}

}  // namespace shardfeed
