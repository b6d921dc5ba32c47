#include "shard/statistics/tfdv_statistics.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "base/utf8.h"

namespace shardfeed {
namespace {

// The number that TFDV uses.
constexpr int kBuckets = 10;
constexpr size_t kTopValues = 20;
constexpr size_t kRanks = 1000;

enum class FeatureType { kInt = 0, kFloat = 1, kString = 2, kBytes = 3 };
enum class HistogramType { kStandard = 0, kQuantiles = 1 };

// Writes the fields of a message. Fields with the value that readers assume are left out, as
// proto3 does.
class Message {
 public:
  void Number(int field, uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    Varint(value);
  }
  void Double(int field, double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    if (bits == 0) return;
    Tag(field, 1);
    char bytes[sizeof(bits)];
    StoreLittleEndian(bits, bytes);
    bytes_.append(bytes, sizeof(bytes));
  }
  void Float(int field, double value) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    if (bits == 0) return;
    Tag(field, 5);
    char bytes[sizeof(bits)];
    StoreLittleEndian(bits, bytes);
    bytes_.append(bytes, sizeof(bytes));
  }
  void Text(int field, std::string_view text) {
    if (!text.empty()) Append(field, text);
  }
  // Written even if it is empty, because the presence of a message has a meaning.
  void Add(int field, const Message& message) { Append(field, message.bytes_); }
  // An element of a list of strings, which may be empty.
  void AddText(int field, std::string_view text) { Append(field, text); }

  std::string Take() { return std::move(bytes_); }

 private:
  void Tag(int field, int wire_type) { Varint(static_cast<uint64_t>(field) << 3 | wire_type); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void Append(int field, std::string_view bytes) {
    Tag(field, 2);
    Varint(bytes.size());
    bytes_ += bytes;
  }

  std::string bytes_;
};

bool IsWhole(const FrequentValues::Entry& entry) { return entry.bytes == entry.text.size(); }

// Whether the frequent values of a bytes feature are text. Only the beginning of a long value is
// known, and its last character may be cut.
bool IsText(const FeatureStatistics& feature) {
  const std::vector<FrequentValues::Entry> entries = feature.frequent().Top(SIZE_MAX);
  return std::ranges::all_of(entries, [](const FrequentValues::Entry& entry) {
    if (IsWhole(entry)) return IsUtf8(entry.text);
    constexpr size_t kMostCut = 3;
    for (size_t cut = 0; cut <= std::min(kMostCut, entry.text.size()); ++cut) {
      if (IsUtf8(entry.text.substr(0, entry.text.size() - cut))) return true;
    }
    return false;
  });
}

Message BucketOf(double low, double high, double count) {
  Message bucket;
  bucket.Double(1, low);
  bucket.Double(2, high);
  bucket.Double(4, count);
  return bucket;
}

// The number of finite values below `bound`, from ranks: a quantile is known for each.
uint64_t CountBelow(const FeatureStatistics& feature, double bound) {
  const uint64_t count = feature.histogram().count();
  uint64_t below = 0;
  uint64_t least_not_below = count + 1;
  while (below + 1 < least_not_below) {
    const uint64_t rank = below + (least_not_below - below) / 2;
    // Half a rank less, so that rounding up gives this rank.
    const double share = (static_cast<double>(rank) - 0.5) / static_cast<double>(count);
    (feature.Quantile(share) < bound ? below : least_not_below) = rank;
  }
  return below;
}

// Buckets of equal widths.
Message StandardHistogram(const FeatureStatistics& feature) {
  Message histogram;
  histogram.Number(1, feature.nan());
  const double min = feature.min();
  const double max = feature.max();
  const auto border = [&](int i) {
    // Avoid a difference that may be infinite.
    return i == kBuckets ? max : min * (1 - i / double{kBuckets}) + max * (i / double{kBuckets});
  };
  const int buckets = min == max ? 1 : kBuckets;
  uint64_t below = 0;
  for (int i = 0; i < buckets; ++i) {
    const double high = buckets == 1 ? max : border(i + 1);
    const uint64_t below_high =
        i + 1 == buckets ? feature.histogram().count() : CountBelow(feature, high);
    histogram.Add(3, BucketOf(border(i), high, static_cast<double>(below_high - below)));
    below = below_high;
  }
  return histogram;
}

// Buckets of equal counts.
Message QuantilesHistogram(const FeatureStatistics& feature) {
  Message histogram;
  histogram.Number(1, feature.nan());
  const auto border = [&](int i) {
    return i == 0          ? feature.min()
           : i == kBuckets ? feature.max()
                           : feature.Quantile(i / double{kBuckets});
  };
  const double each = static_cast<double>(feature.histogram().count()) / kBuckets;
  for (int i = 0; i < kBuckets; ++i) histogram.Add(3, BucketOf(border(i), border(i + 1), each));
  histogram.Number(4, static_cast<uint64_t>(HistogramType::kQuantiles));
  return histogram;
}

Message CommonStatistics(const FeatureSchema& schema, uint64_t examples,
                         const FeatureStatistics* feature) {
  Message common;
  const uint64_t records = feature == nullptr ? 0 : feature->records();
  common.Number(1, records);
  common.Number(2, examples - std::min(examples, records));
  if (records == 0) return common;
  common.Number(3, schema.min_values);
  common.Number(4, schema.max_values);
  common.Float(5, static_cast<double>(feature->values()) / static_cast<double>(records));
  common.Number(8, feature->values());
  // The lengths of lists are known if all are equal.
  if (schema.min_values == schema.max_values) {
    Message lengths;
    const auto length = static_cast<double>(schema.min_values);
    for (int i = 0; i < kBuckets; ++i) {
      lengths.Add(3, BucketOf(length, length, static_cast<double>(records) / kBuckets));
    }
    lengths.Number(4, static_cast<uint64_t>(HistogramType::kQuantiles));
    common.Add(6, lengths);
  }
  return common;
}

Message NumericStatistics(const Message& common, const FeatureStatistics& feature) {
  Message numbers;
  numbers.Add(1, common);
  numbers.Number(4, feature.zeros());
  if (!feature.has_numbers()) return numbers;
  numbers.Double(2, feature.mean());
  numbers.Double(3, feature.deviation());
  numbers.Double(5, feature.min());
  numbers.Double(6, feature.Quantile(0.5));
  numbers.Double(7, feature.max());
  numbers.Add(8, StandardHistogram(feature));
  numbers.Add(8, QuantilesHistogram(feature));
  return numbers;
}

Message StringStatistics(const Message& common, const FeatureStatistics* feature) {
  Message strings;
  strings.Add(1, common);
  if (feature == nullptr || feature->values() == 0) return strings;
  bool exact;
  strings.Number(2, feature->Distinct(&exact));
  Message ranks;
  size_t top = 0;
  uint64_t rank = 0;
  for (const FrequentValues::Entry& entry : feature->frequent().Top(kRanks)) {
    if (IsWhole(entry) && top++ < kTopValues) {
      Message value;
      value.Text(2, entry.text);
      value.Double(3, static_cast<double>(entry.count));
      strings.Add(3, value);
    }
    Message bucket;
    bucket.Number(1, rank);
    bucket.Number(2, rank++);
    if (IsWhole(entry)) bucket.Text(4, entry.text);
    bucket.Double(5, static_cast<double>(entry.count));
    ranks.Add(1, bucket);
  }
  strings.Float(
      4, static_cast<double>(feature->total_bytes()) / static_cast<double>(feature->values()));
  strings.Add(5, ranks);
  return strings;
}

Message BytesStatistics(const Message& common, const FeatureSchema& schema,
                        const FeatureStatistics& feature) {
  Message bytes;
  bytes.Add(1, common);
  bool exact;
  bytes.Number(2, feature.Distinct(&exact));
  bytes.Float(3,
              static_cast<double>(feature.total_bytes()) / static_cast<double>(feature.values()));
  if (schema.min_bytes > schema.max_bytes) return bytes;
  bytes.Float(4, static_cast<double>(schema.min_bytes));
  bytes.Float(5, static_cast<double>(schema.max_bytes));
  bytes.Number(6, schema.max_bytes);
  return bytes;
}

Message FeatureMessage(const std::string& name, const FeatureSchema& schema, uint64_t examples,
                       const FeatureStatistics* feature) {
  Message message;
  const FeatureKind kind = feature == nullptr ? FeatureKind::kNone : feature->kind();
  const Message common = CommonStatistics(schema, examples, feature);
  Message path;
  path.AddText(1, name);
  const auto of_type = [&](FeatureType type) { message.Number(2, static_cast<uint64_t>(type)); };
  if (kind == FeatureKind::kInt64 || kind == FeatureKind::kFloat) {
    of_type(kind == FeatureKind::kInt64 ? FeatureType::kInt : FeatureType::kFloat);
    message.Add(3, NumericStatistics(common, *feature));
  } else if (feature == nullptr || IsText(*feature)) {
    of_type(FeatureType::kString);
    message.Add(4, StringStatistics(common, feature));
  } else {
    of_type(FeatureType::kBytes);
    message.Add(5, BytesStatistics(common, schema, *feature));
  }
  message.Add(8, path);
  return message;
}

}  // namespace

std::string TfdvStatistics(const DatasetStatistics& statistics) {
  Message dataset;
  dataset.Number(2, statistics.num_examples());
  for (const auto& [name, schema] : statistics.schema().features()) {
    const auto feature = statistics.features().find(name);
    dataset.Add(
        3, FeatureMessage(name, schema, statistics.num_examples(),
                          feature == statistics.features().end() ? nullptr : &feature->second));
  }
  Message list;
  list.Add(1, dataset);
  return list.Take();
}

}  // namespace shardfeed
