#include "shard/statistics/frequent_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "xxhash.h"

namespace shardfeed {
namespace {

// The counts of rarer values in a sample say little about their frequency.
constexpr uint64_t kFewest = 3;

}  // namespace

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

void DistinctCounter::Write(StatisticsWriter& out) const {
  out.Number(ranks_.empty() ? 0 : 1);
  // Four ranks of six bits are three bytes.
  for (size_t i = 0; i < ranks_.size(); i += 4) {
    out.Fixed(ranks_[i] | ranks_[i + 1] << 6 | ranks_[i + 2] << 12 | ranks_[i + 3] << 18, 3);
  }
}

void DistinctCounter::Read(StatisticsReader& in) {
  *this = DistinctCounter();
  if (in.Number(1) == 0) return;
  ranks_.resize(kRegisters);
  for (size_t i = 0; i < ranks_.size(); i += 4) {
    const uint64_t packed = in.Fixed(3);
    for (int k = 0; k < 4; ++k) {
      ranks_[i + k] = packed >> (6 * k) & 63;
      in.Expect(ranks_[i + k] <= kMaxRank);
    }
  }
}

uint64_t FrequentValues::KeyOf(std::string_view bytes) {
  if (bytes.size() <= kWholeBytes) return XXH3_64bits(bytes.data(), bytes.size());
  // The ends, and pieces between them at equal distances: all of a large image costs as much as
  // its CRC.
  constexpr size_t kPiece = 64;
  constexpr size_t kPieces = kWholeBytes / kPiece;
  char pieces[kWholeBytes];
  for (size_t i = 0; i < kPieces; ++i) {
    const uint64_t at = uint64_t{bytes.size() - kPiece} * i / (kPieces - 1);
    std::memcpy(pieces + i * kPiece, bytes.data() + at, kPiece);
  }
  return XXH3_64bits_withSeed(pieces, sizeof(pieces), bytes.size());
}

void FrequentValues::Note(uint64_t key, std::string_view bytes) {
  if (bytes.data() == nullptr) return;  // a number
  const auto [it, added] = texts_.try_emplace(key);
  if (!added) return;
  it->second.shown = bytes.substr(0, kShownBytes);
  it->second.bytes = bytes.size();
}

void FrequentValues::CountNew(uint64_t key, std::string_view bytes) {
  counts_.Add(key);
  Note(key, bytes);
  if (counts_.size() > kCapacity) StopCounting();
}

void FrequentValues::StopCounting() {
  if (!exact_) return;
  exact_ = false;
  for (const auto& [key, count] : counts_.Sorted()) distinct_.Add(Spread(key));
  counts_ = {};
  Shrink();
}

void FrequentValues::LeaveOut(uint64_t others) {
  StopCounting();
  total_ += others;
}

void FrequentValues::Sample(uint64_t key, uint64_t rank, std::string_view bytes) {
  sample_.push_back({rank >> (64 - 8 * kRankBytes), key});
  if (!exact_) Note(key, bytes);  // Count has noted the others
  if (sample_.size() >= 2 * kSampled) Shrink();
}

void FrequentValues::Shrink() {
  if (sample_.size() > kSampled) {
    std::nth_element(sample_.begin(), sample_.begin() + (kSampled - 1), sample_.end());
    sample_.resize(kSampled);
    limit_ = std::min(limit_, sample_.back().rank);
  }
  if (exact_ || texts_.empty()) return;
  std::unordered_map<uint64_t, Text> kept;
  for (const Sampled& one : sample_) {
    const auto it = texts_.find(one.key);
    if (it != texts_.end() && !kept.contains(one.key)) kept[one.key] = std::move(it->second);
  }
  texts_ = std::move(kept);
}

void FrequentValues::Merge(const FrequentValues& other) {
  total_ += other.total_;
  if (!other.exact_) {
    StopCounting();
    distinct_.Merge(other.distinct_);
  }
  if (exact_) {
    for (const auto& [key, text] : other.texts_) texts_.try_emplace(key, text);
  }
  for (const auto& [key, count] : other.counts_.Sorted()) {
    if (exact_) {
      counts_.Add(key, count);
      if (counts_.size() > kCapacity) StopCounting();
    } else {
      distinct_.Add(Spread(key));
    }
  }
  for (const Sampled& one : other.sample_) {
    if (one.rank > limit_) continue;
    sample_.push_back(one);
    const auto text = other.texts_.find(one.key);
    if (!exact_ && text != other.texts_.end()) texts_.try_emplace(one.key, text->second);
  }
  // This is done rarely, because it reads the whole sample.
  if (sample_.size() >= 2 * kSampled) Shrink();
}

std::vector<FrequentValues::Sampled> FrequentValues::Sorted() const {
  std::vector<Sampled> sorted = sample_;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() > kSampled) sorted.resize(kSampled);
  return sorted;
}

KeyCounts FrequentValues::InSample() const {
  std::vector<uint64_t> keys;
  for (const Sampled& one : Sorted()) keys.push_back(one.key);
  std::sort(keys.begin(), keys.end());
  KeyCounts found;
  for (uint64_t key : keys) {
    if (found.empty() || found.back().first != key) found.emplace_back(key, 0);
    ++found.back().second;
  }
  return found;
}

uint64_t FrequentValues::counted() const {
  return exact_ ? total_ : std::min<uint64_t>(sample_.size(), kSampled);
}

size_t FrequentValues::size() const { return exact_ ? counts_.size() : InSample().size(); }

uint64_t FrequentValues::Scaled(uint64_t in_sample) const {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(in_sample) * total_ / counted());
}

uint64_t FrequentValues::max_error() const {
  if (exact_ || sample_.empty()) return 0;
  uint64_t most = 1;
  for (const auto& [key, count] : InSample()) most = std::max(most, count);
  const auto sampled = static_cast<double>(counted());
  const double share = static_cast<double>(most) / sampled;
  const double error = 3 * std::sqrt(share * (1 - share) / sampled);
  return static_cast<uint64_t>(std::ceil(error * static_cast<double>(total_)));
}

std::map<uint64_t, uint64_t> FrequentValues::Counts() const {
  KeyCounts found = exact_ ? counts_.Sorted() : InSample();
  if (!exact_) {
    for (auto& [key, count] : found) count = Scaled(count);
  }
  return {found.begin(), found.end()};
}

uint64_t FrequentValues::CountOf(uint64_t key) const {
  const std::map<uint64_t, uint64_t> counts = Counts();
  const auto it = counts.find(key);
  return it == counts.end() ? 0 : it->second;
}

std::vector<FrequentValues::Entry> FrequentValues::Top(size_t most) const {
  std::vector<Entry> entries;
  const auto add = [&](uint64_t key, uint64_t count) {
    const auto text = texts_.find(key);
    if (text == texts_.end()) {
      entries.push_back({key, count, {}, 0});
    } else {
      entries.push_back({key, count, text->second.shown, text->second.bytes});
    }
  };
  if (exact_) {
    for (const auto& [key, count] : counts_.Sorted()) add(key, count);
  } else {
    for (const auto& [key, count] : InSample()) {
      if (count >= kFewest) add(key, Scaled(count));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(b.count, a.key) < std::pair(a.count, b.key);
  });
  if (entries.size() > most) entries.resize(most);
  return entries;
}

uint64_t FrequentValues::Distinct(bool* exact) const {
  *exact = exact_;
  if (exact_) return counts_.size();
  return std::min(total_, static_cast<uint64_t>(std::llround(distinct_.Estimate())));
}

void FrequentValues::WriteKey(StatisticsWriter& out, uint64_t key, bool has_text,
                              bool with_text) const {
  if (!has_text) return out.Number(key);
  out.Fixed(key, 8);
  if (!with_text) return;
  const auto text = texts_.find(key);
  out.Bytes(text == texts_.end() ? "" : text->second.shown);
  out.Number(text == texts_.end() ? 0 : text->second.bytes);
}

uint64_t FrequentValues::ReadKey(StatisticsReader& in, bool has_text, bool with_text) {
  if (!has_text) return in.Number(UINT64_MAX);
  const uint64_t key = in.Fixed(8);
  if (!with_text) return key;
  Text text;
  text.shown = in.Bytes(kShownBytes);
  text.bytes = in.Number();
  in.Expect(text.shown.size() == std::min<uint64_t>(text.bytes, kShownBytes));
  texts_[key] = std::move(text);
  return key;
}

void FrequentValues::Write(StatisticsWriter& out, bool has_text, bool whole) const {
  out.Number(total_);
  out.Number((exact_ ? 1 : 0) | (whole ? 2 : 0));
  if (exact_) {
    out.Number(counts_.size());
    for (const auto& [key, count] : counts_.Sorted()) {
      WriteKey(out, key, has_text, true);
      out.Number(count);
    }
    if (!whole) return;
  } else {
    distinct_.Write(out);
  }
  out.Number(std::min<uint64_t>(sample_.size(), kSampled));
  const KeyCounts found = InSample();
  size_t written = 0;
  for (const auto& [key, count] : found) written += whole || count > 1;
  out.Number(written);
  for (const auto& [key, count] : found) {
    if (!whole && count == 1) continue;
    WriteKey(out, key, has_text, !exact_);
    out.Number(count);
  }
  if (!whole) return;
  for (const Sampled& one : Sorted()) {
    out.Fixed(one.rank, kRankBytes);
    out.Number(
        std::lower_bound(found.begin(), found.end(), std::pair<uint64_t, uint64_t>(one.key, 0)) -
        found.begin());
  }
}

void FrequentValues::Read(StatisticsReader& in, bool has_text) {
  *this = FrequentValues();
  total_ = in.Number();
  const uint64_t form = in.Number(3);
  exact_ = (form & 1) != 0;
  const bool whole = (form & 2) != 0;
  if (exact_) {
    const uint64_t size = in.Number(kCapacity);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < size && in.ok(); ++i) {
      const uint64_t key = ReadKey(in, has_text, true);
      const uint64_t count = in.Number();
      in.Expect(count > 0 && count <= total_ - sum && counts_.Add(key, count));
      if (in.ok()) sum += count;
    }
    in.Expect(sum == total_);
    if (!whole && in.ok()) return SampleCounted();
    if (!whole) return;
  } else {
    distinct_.Read(in);
  }
  const uint64_t sampled = in.Number(std::min<uint64_t>(total_, kSampled));
  const uint64_t size = in.Number(sampled);
  std::vector<std::pair<uint64_t, uint64_t>> found;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < size && in.ok(); ++i) {
    const uint64_t key = ReadKey(in, has_text, !exact_);
    const uint64_t count = in.Number(kSampled);
    in.Expect((found.empty() || key > found.back().first) && count > 0 && count <= sampled - sum);
    if (!in.ok()) return;
    sum += count;
    found.emplace_back(key, count);
  }
  if (!whole) {
    for (const auto& [key, count] : found) {
      for (uint64_t i = 0; i < count; ++i) sample_.push_back({0, key});
    }
    return Complete(sampled);
  }
  in.Expect(sum == sampled);
  for (uint64_t i = 0; i < sampled && in.ok(); ++i) {
    const uint64_t rank = in.Fixed(kRankBytes);
    const uint64_t place = in.Number();
    in.Expect(place < found.size() && found[place].second > 0);
    if (!in.ok()) return;
    --found[place].second;
    sample_.push_back({rank, found[place].first});
  }
  if (sampled == kSampled) {
    for (const Sampled& one : sample_)
      limit_ = std::max(limit_ == UINT64_MAX ? 0 : limit_, one.rank);
  }
}

void FrequentValues::SampleCounted() {
  // Take values at equal distances, so that each is in the sample in proportion to its count.
  const uint64_t sampled = std::min<uint64_t>(total_, kSampled);
  uint64_t passed = 0;
  for (const auto& [key, count] : counts_.Sorted()) {
    passed += count;
    while (sample_.size() < sampled &&
           static_cast<unsigned __int128>(total_) * sample_.size() / sampled < passed) {
      sample_.push_back({0, key});
    }
  }
  Complete(sampled);
}

void FrequentValues::Complete(uint64_t sampled) {
  // The other values occurred once. Their keys are never needed, but must exist and differ from
  // those of all values.
  for (uint64_t i = 0; sample_.size() < sampled; ++i) {
    const uint64_t key = Spread(~total_ + i);
    sample_.push_back({0, key});
  }
  if (total_ == 0) return;
  // The ranks are as small as the smallest ranks of this many values.
  for (size_t i = 0; i < sample_.size(); ++i) {
    const uint64_t rank = Spread(sample_[i].key + i * 0x9e3779b97f4a7c15) >> (64 - 8 * kRankBytes);
    sample_[i].rank =
        static_cast<uint64_t>(static_cast<unsigned __int128>(rank) * sampled / total_);
    limit_ = std::max(limit_ == UINT64_MAX ? 0 : limit_, sample_[i].rank);
  }
  if (sampled < kSampled) limit_ = UINT64_MAX;
}

}  // namespace shardfeed
