#include "tfrecord/example_reader.h"

#include <algorithm>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// Protocol Buffers' own limit for nested messages and groups.
constexpr int kMaxDepth = 100;

// Fields of one message. `failed` once something cannot be read; then Next returns false.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Goes to the next field. Length-delimited ones are in bytes(), varints in varint().
  bool Next() {
    if (at_ == end_ || failed_) return false;
    uint64_t tag;
    if (!Varint(&tag) || tag > UINT32_MAX || (tag >> 3) == 0) return Fail();
    field_ = static_cast<uint32_t>(tag >> 3);
    wire_type_ = tag & 7;
    return Value(wire_type_, kMaxDepth) || Fail();
  }

  uint32_t field() const { return field_; }
  bool IsBytes(uint32_t field) const { return field_ == field && wire_type_ == 2; }
  bool IsVarint(uint32_t field) const { return field_ == field && wire_type_ == 0; }
  bool IsFixed32(uint32_t field) const { return field_ == field && wire_type_ == 5; }
  std::string_view bytes() const { return bytes_; }
  bool failed() const { return failed_; }
  const char* at() const { return at_; }

  // A varint of at most ten bytes.
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) return false;
      const uint8_t byte = static_cast<uint8_t>(*at_++);
      *value |= static_cast<uint64_t>(byte & 0x7f) << std::min(shift, 63);
      if (byte < 0x80) return true;
    }
    return false;
  }

 private:
  bool Fail() {
    failed_ = true;
    return false;
  }
  bool Skip(uint64_t size) {
    if (size > static_cast<uint64_t>(end_ - at_)) return false;
    at_ += size;
    return true;
  }
  bool Value(int wire_type, int depth) {
    uint64_t value;
    switch (wire_type) {
      case 0:
        return Varint(&value);
      case 1:
        return Skip(8);
      case 2: {
        if (!Varint(&value)) return false;
        const char* begin = at_;
        if (!Skip(value)) return false;
        bytes_ = {begin, static_cast<size_t>(value)};
        return true;
      }
      case 3:
        return depth > 0 && Group(field_, depth - 1);
      case 5:
        return Skip(4);
      default:
        return false;
    }
  }
  // An unknown group: everything up to its end tag.
  bool Group(uint32_t field, int depth) {
    while (true) {
      uint64_t tag;
      if (!Varint(&tag) || tag > UINT32_MAX || (tag >> 3) == 0) return false;
      if ((tag & 7) == 4) return (tag >> 3) == field;
      if ((tag & 7) == 3) {
        if (depth == 0 || !Group(static_cast<uint32_t>(tag >> 3), depth - 1)) return false;
      } else if (!Value(static_cast<int>(tag & 7), depth)) {
        return false;
      }
    }
  }

  const char* at_;
  const char* end_;
  uint32_t field_ = 0;
  int wire_type_ = 0;
  std::string_view bytes_;
  bool failed_ = false;
};

// Gathers spans as offsets in the record.
struct SpanSink {
  const char* record;
  std::vector<ValueSpan>* spans;  // may be null

  void Add(std::string_view bytes, uint64_t varints) const {
    if (spans == nullptr) return;
    const size_t begin = bytes.data() - record;
    spans->push_back({begin, begin + bytes.size(), varints});
  }
};

// Returns null, or where reading failed.
const char* ReadList(FeatureKind kind, std::string_view list, FeatureSummary* summary,
                     const SpanSink& spans) {
  Fields fields(list);
  while (fields.Next()) {
    if (kind == FeatureKind::kBytes) {
      if (!fields.IsBytes(1)) continue;
      const uint64_t size = fields.bytes().size();
      summary->min_bytes = summary->values == 0 ? size : std::min(summary->min_bytes, size);
      summary->max_bytes = std::max(summary->max_bytes, size);
      ++summary->values;
      spans.Add(fields.bytes(), 0);
    } else if (kind == FeatureKind::kFloat) {
      if (fields.IsFixed32(1)) ++summary->values;
      if (!fields.IsBytes(1)) continue;
      if (fields.bytes().size() % 4 != 0) return fields.bytes().data();
      summary->values += fields.bytes().size() / 4;
      spans.Add(fields.bytes(), 0);
    } else {
      if (fields.IsVarint(1)) ++summary->values;
      if (!fields.IsBytes(1)) continue;
      Fields packed(fields.bytes());
      uint64_t value;
      uint64_t varints = 0;
      const char* end = fields.bytes().data() + fields.bytes().size();
      while (packed.at() != end) {
        if (!packed.Varint(&value)) return packed.at();
        ++varints;
      }
      summary->values += varints;
      if (varints > 0) spans.Add(fields.bytes(), varints);
    }
  }
  return fields.failed() ? fields.at() : nullptr;
}

const char* ReadFeature(std::string_view feature, FeatureSummary* summary, const SpanSink& spans) {
  Fields fields(feature);
  while (fields.Next()) {
    if (fields.field() > 3 || !fields.IsBytes(fields.field())) continue;
    const FeatureKind kind = static_cast<FeatureKind>(fields.field());
    if (summary->kind != kind && !summary->is_list) {
      // Of a oneof, the last one set counts.
      summary->values = summary->min_bytes = summary->max_bytes = 0;
    }
    if (summary->is_list && summary->kind != FeatureKind::kNone && summary->kind != kind) {
      summary->kinds_differ = true;
    }
    summary->kind = kind;
    if (const char* failed = ReadList(kind, fields.bytes(), summary, spans)) return failed;
  }
  return fields.failed() ? fields.at() : nullptr;
}

// `features`: a Features or FeatureLists message, a map either way.
const char* ReadMap(std::string_view features, bool is_list,
                    const std::function<void(const FeatureSummary&)>& visit,
                    const SpanSink& spans) {
  Fields entries(features);
  while (entries.Next()) {
    if (!entries.IsBytes(1)) continue;
    FeatureSummary summary;
    summary.is_list = is_list;
    Fields entry(entries.bytes());
    while (entry.Next()) {
      if (entry.IsBytes(1)) {
        summary.name = entry.bytes();
      } else if (entry.IsBytes(2) && !is_list) {
        if (const char* failed = ReadFeature(entry.bytes(), &summary, spans)) return failed;
      } else if (entry.IsBytes(2)) {
        Fields steps(entry.bytes());
        while (steps.Next()) {
          if (!steps.IsBytes(1)) continue;
          ++summary.steps;
          if (const char* failed = ReadFeature(steps.bytes(), &summary, spans)) return failed;
        }
        if (steps.failed()) return steps.at();
      }
    }
    if (entry.failed()) return entry.at();
    visit(summary);
  }
  return entries.failed() ? entries.at() : nullptr;
}

}  // namespace

std::string_view FeatureKindName(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kNone:
      return "none";
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "float";
    case FeatureKind::kInt64:
      return "int64";
  }
  return "unknown";
}

absl::Status VisitFeatures(std::string_view record,
                           const std::function<void(const FeatureSummary&)>& visit,
                           std::vector<ValueSpan>* spans) {
  const SpanSink sink{record.data(), spans};
  Fields message(record);
  const char* failed = nullptr;
  while (failed == nullptr && message.Next()) {
    if (message.IsBytes(1)) {
      failed = ReadMap(message.bytes(), /*is_list=*/false, visit, sink);
    } else if (message.IsBytes(2)) {
      failed = ReadMap(message.bytes(), /*is_list=*/true, visit, sink);
    }
  }
  if (message.failed()) failed = message.at();
  if (failed == nullptr) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("not a tf.train.Example: cannot be parsed at byte {} of its {}",
                  failed - record.data(), record.size()));
}

bool AreVarints(std::string_view bytes, uint64_t count) {
  Fields varints(bytes);
  uint64_t value;
  for (; count > 0; --count) {
    if (!varints.Varint(&value)) return false;
  }
  return varints.at() == bytes.data() + bytes.size();
}

}  // namespace shardfeed
