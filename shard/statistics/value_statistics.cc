#include "shard/statistics/value_statistics.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/escaping.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

constexpr uint64_t kVersion = 1;
constexpr size_t kMaxNameBytes = size_t{1} << 20;
constexpr size_t kCrcBytes = 4;

// Sorts by pieces of 11 bits, the least first (Knuth, The Art of Computer Programming, volume 3,
// section 5.2.5): four times as fast as comparing random numbers.
void RadixSort(std::vector<uint64_t>* numbers) {
  constexpr int kBits = 11;
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  std::vector<uint64_t> sorted(numbers->size());
  for (int shift = 0; shift < 64; shift += kBits) {
    std::array<size_t, kMask + 1> places{};
    for (uint64_t number : *numbers) ++places[number >> shift & kMask];
    std::exclusive_scan(places.begin(), places.end(), places.begin(), size_t{0});
    for (uint64_t number : *numbers) sorted[places[number >> shift & kMask]++] = number;
    numbers->swap(sorted);
  }
}

}  // namespace

EqualRecords::Counts EqualRecords::Counted(const Counts& counts, std::vector<uint64_t> pending,
                                           uint64_t* mask) {
  RadixSort(&pending);
  Counts all;
  all.reserve(counts.size() + pending.size());
  const auto add = [&](uint64_t digest, uint64_t count) {
    if (!all.empty() && all.back().first == digest) {
      all.back().second += count;
    } else {
      all.emplace_back(digest, count);
    }
  };
  size_t i = 0;
  for (const auto& [digest, count] : counts) {
    for (; i < pending.size() && pending[i] < digest; ++i) add(pending[i], 1);
    add(digest, count);
  }
  for (; i < pending.size(); ++i) add(pending[i], 1);
  while (all.size() > kExact) {
    *mask = *mask << 1 | 1;
    std::erase_if(all, [&](const auto& one) { return (one.first & *mask) != 0; });
  }
  return all;
}

void EqualRecords::Count() {
  counts_ = Counted(counts_, pending_, &mask_);
  pending_.clear();
}

void EqualRecords::Merge(const EqualRecords& other) {
  const bool is_known = (records_ == 0 || !result_) && !other.result_;
  if (other.records_ == 0) return;
  if (records_ == 0 && other.result_) {
    *this = other;
    return;
  }
  records_ += other.records_;
  if (!is_known) {
    result_ = kUnknown;
    return;
  }
  if (mask_ < other.mask_) {
    mask_ = other.mask_;
    const auto is_masked = [this](uint64_t digest) { return (digest & mask_) != 0; };
    std::erase_if(counts_, [&](const auto& one) { return is_masked(one.first); });
    std::erase_if(pending_, is_masked);
  }
  // Digests of few records are sorted with later ones.
  for (uint64_t digest : other.pending_) {
    if ((digest & mask_) == 0) pending_.push_back(digest);
  }
  if (!other.counts_.empty()) {
    Counts theirs = other.counts_;
    std::erase_if(theirs, [this](const auto& one) { return (one.first & mask_) != 0; });
    Counts both;
    both.reserve(counts_.size() + theirs.size());
    std::merge(counts_.begin(), counts_.end(), theirs.begin(), theirs.end(),
               std::back_inserter(both));
    counts_ = std::move(both);  // Counted adds up equal digests
    Count();
  } else if (pending_.size() >= kExact) {
    Count();
  }
}

std::optional<uint64_t> EqualRecords::repeated(bool* exact) const {
  uint64_t mask = mask_;
  const Counts counts = Counted(counts_, pending_, &mask);
  *exact = mask == 0;
  if (result_ == kUnknown) return std::nullopt;
  if (result_) return *result_;
  unsigned __int128 repeated = 0;
  for (const auto& [digest, count] : counts) repeated += count - 1;
  return static_cast<uint64_t>(
      std::min<unsigned __int128>(repeated * (unsigned __int128){mask + 1}, records_));
}

void EqualRecords::Write(StatisticsWriter& out, bool whole) const {
  uint64_t mask = mask_;
  const Counts counts = Counted(counts_, pending_, &mask);
  out.Number(records_);
  out.Number(mask);
  out.Number(whole ? kDigests : kResult);
  if (!whole) {
    bool exact;
    const std::optional<uint64_t> result = repeated(&exact);
    out.Number(result ? 1 : 0);
    return out.Number(result.value_or(0));
  }
  out.Number(counts.size());
  for (const auto& [digest, count] : counts) {
    out.Fixed(digest, 8);
    out.Number(count);
  }
}

void EqualRecords::Read(StatisticsReader& in, uint64_t records) {
  *this = EqualRecords();
  records_ = in.Number();
  in.Expect(records_ == records);
  mask_ = in.Number(UINT64_MAX);
  in.Expect((mask_ & (mask_ + 1)) == 0);
  const uint64_t written = in.Number(kDigests);
  if (written == kResult) {
    const bool known = in.Number(1) == 1;
    result_ = in.Number(known ? records_ : 0);
    if (!known) result_ = kUnknown;
    return;
  }
  const uint64_t size = in.Number(kExact);
  uint64_t rest = records_;
  for (uint64_t i = 0; i < size && in.ok(); ++i) {
    const uint64_t digest = in.Fixed(8);
    const uint64_t count = in.Number();
    in.Expect((digest & mask_) == 0 && (i == 0 || digest > counts_.back().first) && count > 0 &&
              count <= rest);
    if (!in.ok()) break;
    rest -= count;
    counts_.emplace_back(digest, count);
  }
  in.Expect(mask_ != 0 || rest == 0);
  if (written == kEarlierDigests && in.ok()) {
    bool exact;
    result_ = repeated(&exact);
    counts_.clear();
  }
}

FeatureStatistics* ValueStatistics::Of(std::string_view name) {
  const auto it = features_.find(name);
  if (it != features_.end()) return &it->second;
  if (features_.size() == kMaxFeatures) {
    has_all_ = false;
    const auto last = std::prev(features_.end());
    if (name > last->first) return nullptr;
    features_.erase(last);
    ++num_removed_;
  }
  return &features_[std::string(name)];
}

void ValueStatistics::Merge(const ValueStatistics& other) {
  for (const auto& [name, theirs] : other.features_) {
    if (FeatureStatistics* ours = Of(name)) ours->Merge(theirs);
  }
  has_all_ = has_all_ && other.has_all_;
  equal_records_.Merge(other.equal_records_);
}

std::string ValueStatistics::Format(bool whole) const {
  StatisticsWriter out;
  out.Number(kVersion);
  out.Number(has_all_ ? 1 : 0);
  out.Number(features_.size());
  for (const auto& [name, feature] : features_) {
    out.Bytes(name);
    feature.Write(out, whole);
  }
  equal_records_.Write(out, whole);
  out.Fixed(Crc32c(out.code()), kCrcBytes);
  return std::move(out.code());
}

std::optional<ValueStatistics> ValueStatistics::Parse(std::string_view code, uint64_t records) {
  if (code.size() < kCrcBytes) return std::nullopt;
  const std::string_view content = code.substr(0, code.size() - kCrcBytes);
  StatisticsReader crc(code.substr(content.size()));
  if (crc.Fixed(kCrcBytes) != Crc32c(content)) return std::nullopt;
  StatisticsReader in(content);
  ValueStatistics statistics;
  in.Expect(in.Number() == kVersion);
  statistics.has_all_ = in.Number(1) == 1;
  const uint64_t size = in.Number(kMaxFeatures);
  for (uint64_t i = 0; i < size && in.ok(); ++i) {
    std::string name(in.Bytes(kMaxNameBytes));
    in.Expect(i == 0 || name > std::prev(statistics.features_.end())->first);
    if (in.ok()) statistics.features_[std::move(name)].Read(in, records);
  }
  statistics.equal_records_.Read(in, records);
  in.Expect(in.at_end());
  if (!in.ok()) return std::nullopt;
  return statistics;
}

std::string ValueStatistics::FormatText(bool whole) const {
  return absl::Base64Escape(Format(whole));
}

std::shared_ptr<const ValueStatistics> ValueStatistics::ParseText(std::string_view text,
                                                                  uint64_t records) {
  std::string code;
  if (!absl::Base64Unescape({text.data(), text.size()}, &code)) return nullptr;
  std::optional<ValueStatistics> values = Parse(code, records);
  if (!values) return nullptr;
  return std::make_shared<const ValueStatistics>(*std::move(values));
}

}  // namespace shardfeed
