#include "tfrecord/example_reader.h"

#include <algorithm>

#include "fmt/format.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

// Number of messages that enclose a message; there is one more within a feature list.
constexpr int kMapDepth = 1;
constexpr int kEntryDepth = 2;
constexpr int kFeatureDepth = 3;

// Collects spans as offsets in the record.
struct SpanSink {
  const char* record;
  std::vector<ValueSpan>* spans;  // May be null.

  void Add(std::string_view bytes, uint64_t varints) const {
    if (spans == nullptr) return;
    const size_t begin = bytes.data() - record;
    spans->push_back({begin, begin + bytes.size(), varints});
  }
};

// Returns null, or the position at which reading failed.
const char* ReadList(FeatureKind kind, std::string_view list, int depth, FeatureSummary* summary,
                     const SpanSink& spans) {
  WireFields fields(list, depth);
  while (fields.Next()) {
    if (kind == FeatureKind::kBytes) {
      if (!fields.Is(1, WireType::kBytes)) continue;
      const uint64_t size = fields.bytes().size();
      summary->min_bytes = summary->values == 0 ? size : std::min(summary->min_bytes, size);
      summary->max_bytes = std::max(summary->max_bytes, size);
      ++summary->values;
      spans.Add(fields.bytes(), 0);
    } else if (kind == FeatureKind::kFloat) {
      if (fields.Is(1, WireType::kFixed32)) ++summary->values;
      if (!fields.Is(1, WireType::kBytes)) continue;
      if (fields.bytes().size() % 4 != 0) return fields.bytes().data();
      summary->values += fields.bytes().size() / 4;
      spans.Add(fields.bytes(), 0);
    } else {
      if (fields.Is(1, WireType::kVarint)) ++summary->values;
      if (!fields.Is(1, WireType::kBytes)) continue;
      const char* at = fields.bytes().data();
      const char* end = at + fields.bytes().size();
      uint64_t varints = 0;
      for (; at != end; ++varints) {
        const char* next = ReadVarint(at, end).end;
        if (next == nullptr) return at;
        at = next;
      }
      summary->values += varints;
      if (varints > 0) spans.Add(fields.bytes(), varints);
    }
  }
  return fields.failed();
}

const char* ReadFeature(std::string_view feature, int depth, FeatureSummary* summary,
                        const SpanSink& spans) {
  WireFields fields(feature, depth);
  while (fields.Next()) {
    if (fields.field() > 3 || !fields.Is(fields.field(), WireType::kBytes)) continue;
    const FeatureKind kind = static_cast<FeatureKind>(fields.field());
    if (summary->kind != kind && !summary->is_list) {
      // If several members of a oneof are set, the last one counts.
      summary->values = summary->min_bytes = summary->max_bytes = 0;
    }
    if (summary->is_list && summary->kind != FeatureKind::kNone && summary->kind != kind) {
      summary->kinds_differ = true;
    }
    summary->kind = summary->is_list ? FirstOfKinds(summary->kind, kind) : kind;
    if (const char* failed = ReadList(kind, fields.bytes(), depth + 1, summary, spans))
      return failed;
  }
  return fields.failed();
}

// Reads a Features or a FeatureLists message, both of which are maps.
const char* ReadMap(std::string_view features, bool is_list,
                    const std::function<void(const FeatureSummary&)>& visit,
                    const SpanSink& spans) {
  WireFields entries(features, kMapDepth);
  while (entries.Next()) {
    if (!entries.Is(1, WireType::kBytes)) continue;
    FeatureSummary summary;
    summary.is_list = is_list;
    WireFields entry(entries.bytes(), kEntryDepth);
    while (entry.Next()) {
      if (entry.Is(1, WireType::kBytes)) {
        summary.name = entry.bytes();
      } else if (entry.Is(2, WireType::kBytes) && !is_list) {
        if (const char* failed = ReadFeature(entry.bytes(), kFeatureDepth, &summary, spans))
          return failed;
      } else if (entry.Is(2, WireType::kBytes)) {
        WireFields steps(entry.bytes(), kFeatureDepth);
        while (steps.Next()) {
          if (!steps.Is(1, WireType::kBytes)) continue;
          ++summary.steps;
          const uint64_t before = summary.values;
          if (const char* failed = ReadFeature(steps.bytes(), kFeatureDepth + 1, &summary, spans))
            return failed;
          const uint64_t in_step = summary.values - before;
          summary.min_step_values = std::min(summary.min_step_values, in_step);
          summary.max_step_values = std::max(summary.max_step_values, in_step);
        }
        if (steps.failed()) return steps.failed();
      }
    }
    if (entry.failed()) return entry.failed();
    visit(summary);
  }
  return entries.failed();
}

using VisitValue = std::function<void(std::string_view name, std::string_view value)>;

// Both functions return null, or the position at which reading failed.
const char* VisitBytesOfFeature(std::string_view name, std::string_view feature, int depth,
                                const VisitValue& visit) {
  WireFields lists(feature, depth);
  while (lists.Next()) {
    if (!lists.Is(1, WireType::kBytes)) continue;
    WireFields values(lists.bytes(), depth + 1);
    while (values.Next()) {
      if (values.Is(1, WireType::kBytes)) visit(name, values.bytes());
    }
    if (values.failed()) return values.failed();
  }
  return lists.failed();
}

const char* VisitBytesOfMap(std::string_view features, bool is_list, const VisitValue& visit) {
  WireFields entries(features, kMapDepth);
  while (entries.Next()) {
    if (!entries.Is(1, WireType::kBytes)) continue;
    // The name may follow the value, so look for it first.
    std::string_view name;
    WireFields names(entries.bytes(), kEntryDepth);
    while (names.Next()) {
      if (names.Is(1, WireType::kBytes)) name = names.bytes();
    }
    if (names.failed()) return names.failed();
    WireFields entry(entries.bytes(), kEntryDepth);
    while (entry.Next()) {
      if (!entry.Is(2, WireType::kBytes)) continue;
      if (!is_list) {
        const char* failed = VisitBytesOfFeature(name, entry.bytes(), kFeatureDepth, visit);
        if (failed != nullptr) return failed;
        continue;
      }
      WireFields steps(entry.bytes(), kFeatureDepth);
      while (steps.Next()) {
        if (!steps.Is(1, WireType::kBytes)) continue;
        const char* failed = VisitBytesOfFeature(name, steps.bytes(), kFeatureDepth + 1, visit);
        if (failed != nullptr) return failed;
      }
      if (steps.failed()) return steps.failed();
    }
  }
  return entries.failed();
}

absl::Status CannotBeParsed(std::string_view record, const char* failed) {
  return absl::DataLossError(
      fmt::format("not a tf.train.Example: cannot be parsed at byte {} of its {}",
                  failed - record.data(), record.size()));
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
  WireFields message(record, 0);
  const char* failed = nullptr;
  while (failed == nullptr && message.Next()) {
    if (message.Is(1, WireType::kBytes)) {
      failed = ReadMap(message.bytes(), /*is_list=*/false, visit, sink);
    } else if (message.Is(2, WireType::kBytes)) {
      failed = ReadMap(message.bytes(), /*is_list=*/true, visit, sink);
    }
  }
  if (failed == nullptr) failed = message.failed();
  if (failed == nullptr) return absl::OkStatus();
  return CannotBeParsed(record, failed);
}

absl::Status VisitBytes(
    std::string_view record,
    const std::function<void(std::string_view name, std::string_view value)>& visit) {
  WireFields message(record, 0);
  const char* failed = nullptr;
  while (failed == nullptr && message.Next()) {
    const bool is_list = message.Is(2, WireType::kBytes);
    if (is_list || message.Is(1, WireType::kBytes)) {
      failed = VisitBytesOfMap(message.bytes(), is_list, visit);
    }
  }
  if (failed == nullptr) failed = message.failed();
  return failed == nullptr ? absl::OkStatus() : CannotBeParsed(record, failed);
}

bool AreVarints(std::string_view bytes, uint64_t count) {
  const char* at = bytes.data();
  const char* end = at + bytes.size();
  for (; count > 0; --count) {
    at = ReadVarint(at, end).end;
    if (at == nullptr) return false;
  }
  return at == end;
}

}  // namespace shardfeed
