#include "tfrecord/feature_values.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

// Number of messages that enclose a message; there is one more within a feature list.
constexpr int kMapDepth = 1;
constexpr int kEntryDepth = 2;
constexpr int kFeatureDepth = 3;

float FloatAt(const char* at) { return std::bit_cast<float>(LoadLittleEndian<uint32_t>(at)); }

void Clear(RecordFeature* feature) {
  feature->ints.clear();
  feature->floats.clear();
  feature->bytes.clear();
}

// Returns null, or the position at which reading failed.
const char* ReadList(FeatureKind kind, std::string_view list, int depth, RecordFeature* feature) {
  WireFields fields(list, depth);
  while (fields.Next()) {
    const std::string_view bytes = fields.bytes();
    if (kind == FeatureKind::kBytes) {
      if (fields.Is(1, WireType::kBytes)) feature->bytes.push_back(bytes);
    } else if (kind == FeatureKind::kFloat) {
      if (fields.Is(1, WireType::kFixed32)) feature->floats.push_back(FloatAt(bytes.data()));
      if (!fields.Is(1, WireType::kBytes)) continue;
      if (bytes.size() % 4 != 0) return bytes.data();
      for (size_t i = 0; i < bytes.size(); i += 4) {
        feature->floats.push_back(FloatAt(bytes.data() + i));
      }
    } else {
      const bool packed = fields.Is(1, WireType::kBytes);
      if (!packed && !fields.Is(1, WireType::kVarint)) continue;
      const char* at = bytes.data();
      const char* end = at + bytes.size();
      while (at != end) {
        const WireNumber number = ReadVarint(at, end);
        if (number.end == nullptr) return at;
        feature->ints.push_back(static_cast<int64_t>(number.value));
        at = number.end;
        if (!packed) break;
      }
    }
  }
  return fields.failed();
}

const char* ReadFeature(std::string_view message, int depth, RecordFeature* feature) {
  WireFields fields(message, depth);
  while (fields.Next()) {
    if (fields.field() > 3 || !fields.Is(fields.field(), WireType::kBytes)) continue;
    const auto kind = static_cast<FeatureKind>(fields.field());
    // If several members of a oneof are set, the last one counts.
    if (feature->kind != kind && !feature->is_list) Clear(feature);
    feature->kind = kind;
    if (const char* failed = ReadList(kind, fields.bytes(), depth + 1, feature)) return failed;
  }
  return fields.failed();
}

}  // namespace

RecordFeature& FeatureReader::Next() {
  if (count_ == features_.size()) features_.emplace_back();
  RecordFeature& feature = features_[count_++];
  feature.name = {};
  feature.kind = FeatureKind::kNone;
  Clear(&feature);
  return feature;
}

const char* FeatureReader::ReadMap(std::string_view map, bool is_list) {
  WireFields entries(map, kMapDepth);
  while (entries.Next()) {
    if (!entries.Is(1, WireType::kBytes)) continue;
    RecordFeature& feature = Next();
    feature.is_list = is_list;
    WireFields entry(entries.bytes(), kEntryDepth);
    while (entry.Next()) {
      if (entry.Is(1, WireType::kBytes)) {
        feature.name = entry.bytes();
      } else if (entry.Is(2, WireType::kBytes) && !is_list) {
        if (const char* failed = ReadFeature(entry.bytes(), kFeatureDepth, &feature)) return failed;
      } else if (entry.Is(2, WireType::kBytes)) {
        WireFields steps(entry.bytes(), kFeatureDepth);
        while (steps.Next()) {
          if (!steps.Is(1, WireType::kBytes)) continue;
          if (const char* failed = ReadFeature(steps.bytes(), kFeatureDepth + 1, &feature)) {
            return failed;
          }
        }
        if (steps.failed() != nullptr) return steps.failed();
      }
    }
    if (entry.failed() != nullptr) return entry.failed();
  }
  return entries.failed();
}

void FeatureReader::DropRepeated() {
  const auto key = [this](size_t i) { return std::pair(features_[i].name, features_[i].is_list); };
  // Most writers sort the names, so a quick check usually suffices.
  bool rising = true;
  for (size_t i = 1; i < count_ && rising; ++i) rising = key(i - 1) < key(i);
  if (rising) return;
  std::vector<size_t> order(count_);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<bool> repeated(count_);
  for (size_t i = 1; i < count_; ++i) repeated[order[i - 1]] = key(order[i - 1]) == key(order[i]);
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (repeated[i]) continue;
    if (kept != i) std::swap(features_[kept], features_[i]);
    ++kept;
  }
  count_ = kept;
}

absl::Status FeatureReader::Read(std::string_view record) {
  count_ = 0;
  WireFields message(record, 0);
  const char* failed = nullptr;
  while (failed == nullptr && message.Next()) {
    if (message.Is(1, WireType::kBytes)) {
      failed = ReadMap(message.bytes(), /*is_list=*/false);
    } else if (message.Is(2, WireType::kBytes)) {
      failed = ReadMap(message.bytes(), /*is_list=*/true);
    }
  }
  if (failed == nullptr) failed = message.failed();
  if (failed == nullptr) {
    DropRepeated();
    return absl::OkStatus();
  }
  count_ = 0;
  return absl::DataLossError(
      fmt::format("not a tf.train.Example: cannot be parsed at byte {} of its {}",
                  failed - record.data(), record.size()));
}

}  // namespace shardfeed
