#include "shard/schema/schema.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

constexpr FeatureKind kAllKinds[] = {FeatureKind::kNone, FeatureKind::kBytes, FeatureKind::kFloat,
                                     FeatureKind::kInt64};

// More values do not fit into a record, whose size has 31 bits in Protocol Buffers.
constexpr uint64_t kMaxShapeSize = INT32_MAX;

// The tags of length-delimited fields.
constexpr char kFirstField = 1 << 3 | 2;
constexpr char kSecondField = 2 << 3 | 2;

// Returns whether a name appears twice. Most writers sort the names, so a quick check usually
// suffices.
bool HasEqualNames(const std::vector<FeatureSummary>& summaries) {
  const auto not_rising = [](const FeatureSummary& a, const FeatureSummary& b) {
    return a.name >= b.name;
  };
  if (std::adjacent_find(summaries.begin(), summaries.end(), not_rising) == summaries.end()) {
    return false;
  }
  std::vector<std::string_view> names;
  names.reserve(summaries.size());
  for (const FeatureSummary& summary : summaries) names.push_back(summary.name);
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) != names.end();
}

// Whether records that have the feature can all have values of its shape.
bool ShapeFits(const FeatureSchema& feature) {
  const std::vector<int64_t>& shape = feature.type.shape;
  const bool any_length = !shape.empty() && shape[0] == -1;
  uint64_t values = 1;
  for (size_t i = any_length ? 1 : 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || static_cast<uint64_t>(shape[i]) > kMaxShapeSize) return false;
    values *= static_cast<uint64_t>(shape[i]);
    if (values > kMaxShapeSize) return false;
  }
  if (shape.empty() || feature.records == 0) return true;
  if (!any_length) return feature.min_values == values && feature.max_values == values;
  if (values == 0) return feature.max_values == 0;
  return feature.min_values % values == 0 && feature.max_values % values == 0;
}

bool IsKindName(std::string_view name) {
  return std::ranges::any_of(kAllKinds,
                             [name](FeatureKind k) { return FeatureKindName(k) == name; });
}

// Sets what follows from `records` and `of_kind`. Without a record of a single kind, the kind is
// the first of what it was (as declared, or of records of several kinds) and `other`.
void ChooseKind(FeatureSchema& feature, FeatureKind other) {
  uint64_t most = 0;
  feature.kind = FirstOfKinds(feature.kind, other);
  for (FeatureKind kind : {FeatureKind::kInt64, FeatureKind::kFloat, FeatureKind::kBytes}) {
    if (feature.of_kind[static_cast<size_t>(kind)] <= most) continue;
    most = feature.of_kind[static_cast<size_t>(kind)];
    feature.kind = kind;
  }
  feature.mixed_kinds =
      feature.records - feature.of_kind[static_cast<size_t>(FeatureKind::kNone)] - most;
}

// Whether a schema without counts of kinds shows that all records are of `kind`. Manifests of
// earlier versions have none of them; there, records without values may be without a kind.
bool AllAreOfKind(const FeatureSchema& feature) {
  return feature.of_kind[static_cast<size_t>(feature.kind)] == feature.records &&
         (feature.min_values > 0 || feature.kind == FeatureKind::kNone);
}

// The kind of list in which values of a type are.
FeatureKind KindOfType(std::string_view dtype) {
  if (dtype.empty()) return FeatureKind::kNone;
  if (dtype == "bytes") return FeatureKind::kBytes;
  return dtype.find("float") == std::string_view::npos ? FeatureKind::kInt64 : FeatureKind::kFloat;
}

}  // namespace

bool Schema::Layout::Fits(std::string_view record) const {
  if (structure.empty()) return false;
  size_t at = 0;
  const char* expected = structure.data();
  const auto is_structure = [&](size_t end) {
    const bool equal = std::memcmp(record.data() + at, expected, end - at) == 0;
    expected += end - at;
    return equal;
  };
  for (const ValueSpan& span : values) {
    if (!is_structure(span.begin)) return false;
    if (span.varints > 0 &&
        !AreVarints(record.substr(span.begin, span.end - span.begin), span.varints)) {
      return false;
    }
    at = span.end;
  }
  return is_structure(record.size());
}

Schema::Memories& Schema::Memories::operator=(const Memories&) {
  last_order.clear();
  num_different = 0;
  layouts = {};
  return *this;
}

void Schema::Layout::Remember(std::string_view record) {
  size_t at = 0;
  for (const ValueSpan& span : values) {
    structure.append(record.substr(at, span.begin - at));
    at = span.end;
  }
  structure.append(record.substr(at));
}

// Records of remembered layouts count as of the kind that features had, which has changed.
void Schema::ForgetLayouts() {
  for (Layout& layout : memories_.layouts) layout.structure.clear();
}

Schema::Seen Schema::Find(std::string_view name, size_t position) {
  std::vector<Seen>& order = memories_.last_order;
  if (position < order.size() && *order[position].name == name) return order[position];
  auto it = features_.find(name);
  if (it == features_.end()) it = features_.emplace(std::string(name), FeatureSchema()).first;
  // Fill skipped positions (of names that appear again) with this feature too, so that every entry
  // is a valid feature under its own name.
  const Seen seen = {&it->second, &it->first};
  order.resize(std::max(order.size(), position + 1), seen);
  order[position] = seen;
  return seen;
}

bool Schema::SpansShowAll(const std::vector<ValueSpan>& values) const {
  size_t at = 0;
  for (size_t i = 0; i < summaries_.size(); ++i) {
    const FeatureSummary& summary = summaries_[i];
    uint64_t shown = 0;
    for (; at < span_ends_[i]; ++at) {
      const ValueSpan& span = values[at];
      shown += summary.kind == FeatureKind::kBytes   ? 1
               : summary.kind == FeatureKind::kFloat ? (span.end - span.begin) / 4
                                                     : span.varints;
    }
    if (shown != summary.values || summary.kinds_differ) return false;
  }
  return true;
}

bool Schema::AddPlain(std::string_view record, Layout& layout) {
  const char* at = record.data();
  const char* const end = at + record.size();
  // Moves to the content of a field that ends where its message does.
  const auto enter = [&at](char tag, const char* message_end) {
    if (at == message_end || *at != tag) return false;
    const WireNumber length = ReadLength(at + 1, message_end);
    if (length.end == nullptr || length.end + length.value != message_end) return false;
    at = length.end;
    return true;
  };
  layout.values.clear();
  layout.features.clear();
  if (memories_.num_different == 0 || !enter(kFirstField, end)) return false;
  for (size_t position = 0; at != end; ++position) {
    if (*at != kFirstField) return false;
    const WireNumber entry = ReadLength(at + 1, end);
    if (entry.end == nullptr || entry.value == 0 || *entry.end != kFirstField) return false;
    const char* const entry_end = entry.end + entry.value;
    const WireNumber name = ReadLength(entry.end + 1, entry_end);
    if (name.end == nullptr) return false;
    const std::string_view found(name.end, name.value);
    while (position < memories_.num_different && *memories_.last_order[position].name != found) {
      ++position;
    }
    if (position >= memories_.num_different) return false;
    const Seen& seen = memories_.last_order[position];
    at = name.end + name.value;
    if (!enter(kSecondField, entry_end) || at == entry_end) return false;
    FoundFeature feature{.name = seen.name,
                         .schema = seen.schema,
                         .position = position,
                         .kind = static_cast<FeatureKind>(*at >> 3)};
    if (feature.kind != seen.schema->kind || seen.schema->is_list ||
        !enter(static_cast<char>(static_cast<int>(feature.kind) << 3 | 2), entry_end)) {
      return false;
    }
    const auto add_span = [&](const char* begin, const char* span_end, uint64_t varints) {
      layout.values.push_back({static_cast<size_t>(begin - record.data()),
                               static_cast<size_t>(span_end - record.data()), varints});
    };
    if (feature.kind == FeatureKind::kBytes) {
      for (; at != entry_end; ++feature.count) {
        if (*at != kFirstField) return false;
        const WireNumber value = ReadLength(at + 1, entry_end);
        if (value.end == nullptr) return false;
        at = value.end + value.value;
        add_span(value.end, at, 0);
        feature.min_bytes =
            feature.count == 0 ? value.value : std::min(feature.min_bytes, value.value);
        feature.max_bytes = std::max(feature.max_bytes, value.value);
      }
    } else if (at != entry_end) {
      if (!enter(kFirstField, entry_end)) return false;
      const char* const begin = at;
      if (feature.kind == FeatureKind::kFloat) {
        if ((entry_end - at) % 4 != 0) return false;
        feature.count = static_cast<uint64_t>(entry_end - at) / 4;
        if (feature.count > 0) add_span(begin, entry_end, 0);
      } else {
        for (; at != entry_end; ++feature.count) {
          at = ReadVarint(at, entry_end).end;
          if (at == nullptr) return false;
        }
        if (feature.count > 0) add_span(begin, entry_end, feature.count);
      }
      at = entry_end;
    }
    feature.end = layout.values.size();
    layout.features.push_back(feature);
  }
  for (const FoundFeature& found : layout.features) {
    FeatureSchema& feature = *found.schema;
    ++feature.records;
    ++feature.of_kind[static_cast<size_t>(found.kind)];
    feature.min_values = std::min(feature.min_values, found.count);
    feature.max_values = std::max(feature.max_values, found.count);
    if (found.kind == FeatureKind::kBytes && found.count > 0) {
      feature.min_bytes = std::min(feature.min_bytes, found.min_bytes);
      feature.max_bytes = std::max(feature.max_bytes, found.max_bytes);
    }
  }
  return true;
}

absl::Status Schema::AddRecord(std::string_view record, ValueVisitor* visitor) {
  ++records_;
  Layout& layout = memories_.layouts[record.size() % memories_.layouts.size()];
  const bool size_repeats = layout.record_bytes == record.size();
  if (size_repeats && layout.Fits(record)) {
    for (const FoundFeature& feature : layout.features) {
      ++feature.schema->records;
      ++feature.schema->of_kind[static_cast<size_t>(feature.kind)];
    }
    if (visitor != nullptr) visitor->Visit(layout.features, layout.values);
    return absl::OkStatus();
  }
  // A layout that did not fit is not replaced at once: where sizes repeat by chance, that would be
  // done in vain for each record.
  const bool may_remember = size_repeats && layout.structure.empty();
  layout.record_bytes = record.size();
  layout.structure.clear();
  if (AddPlain(record, layout)) {
    if (visitor != nullptr) visitor->Visit(layout.features, layout.values);
    if (may_remember) layout.Remember(record);
    return absl::OkStatus();
  }
  layout.values.clear();
  layout.features.clear();
  summaries_.clear();
  span_ends_.clear();
  absl::Status status = VisitFeatures(
      record,
      [&](const FeatureSummary& summary) {
        summaries_.push_back(summary);
        span_ends_.push_back(layout.values.size());
      },
      may_remember || visitor != nullptr ? &layout.values : nullptr);
  if (!status.ok()) {
    ++not_examples_;
    return status;
  }
  const bool may_repeat = HasEqualNames(summaries_);
  bool remember = may_remember && !may_repeat;
  memories_.num_different = may_repeat ? 0 : summaries_.size();
  for (size_t i = 0; i < summaries_.size(); ++i) {
    const FeatureSummary& summary = summaries_[i];
    if (may_repeat &&
        std::any_of(summaries_.begin() + i + 1, summaries_.end(), [&](const FeatureSummary& later) {
          return later.name == summary.name && later.is_list == summary.is_list;
        })) {
      continue;  // The last of several features with the same name counts.
    }
    const Seen seen = Find(summary.name, i);
    FeatureSchema& feature = *seen.schema;
    ++feature.records;
    feature.is_list |= summary.is_list;
    if (!summary.kinds_differ) ++feature.of_kind[static_cast<size_t>(summary.kind)];
    if (feature.kind == FeatureKind::kNone) feature.kind = summary.kind;
    if (summary.kinds_differ ||
        (summary.kind != FeatureKind::kNone && summary.kind != feature.kind)) {
      ChooseKind(feature, summary.kind);
      ForgetLayouts();
      remember = false;
    }
    feature.min_values = std::min(feature.min_values, summary.values);
    feature.max_values = std::max(feature.max_values, summary.values);
    feature.min_step_values = std::min(feature.min_step_values, summary.min_step_values);
    feature.max_step_values = std::max(feature.max_step_values, summary.max_step_values);
    if (summary.kind == FeatureKind::kBytes && summary.values > 0) {
      feature.min_bytes = std::min(feature.min_bytes, summary.min_bytes);
      feature.max_bytes = std::max(feature.max_bytes, summary.max_bytes);
    }
    layout.features.push_back({seen.name, seen.schema, i, summary.kind, summary.values,
                               span_ends_[i], summary.min_bytes, summary.max_bytes});
  }
  // The layout has no structure for a record that is not to be remembered.
  if (visitor != nullptr) {
    if (may_repeat || !SpansShowAll(layout.values)) {
      remember = false;
      visitor->VisitIrregular(record);
    } else {
      visitor->Visit(layout.features, layout.values);
    }
  }
  if (remember) layout.Remember(record);
  return absl::OkStatus();
}

void Schema::Merge(const Schema& other) {
  records_ += other.records_;
  not_examples_ += other.not_examples_;
  for (const auto& [name, theirs] : other.features_) {
    const auto [it, is_new] = features_.try_emplace(name);
    FeatureSchema& ours = it->second;
    if (is_new) {
      ours.type = theirs.type;
    } else {
      if (ours.type.dtype != theirs.type.dtype) ours.type.dtype.clear();
      if (ours.type.shape != theirs.type.shape) ours.type.shape.clear();
    }
    for (size_t kind = 0; kind < ours.of_kind.size(); ++kind) {
      ours.of_kind[kind] += theirs.of_kind[kind];
    }
    // What only one of them tells is not known of all.
    ours.knows_kinds &= theirs.knows_kinds;
    ours.knows_steps &= theirs.knows_steps;
    ours.min_step_values =
        ours.knows_steps ? std::min(ours.min_step_values, theirs.min_step_values) : UINT64_MAX;
    ours.max_step_values =
        ours.knows_steps ? std::max(ours.max_step_values, theirs.max_step_values) : 0;
    ours.is_list |= theirs.is_list;
    ours.records += theirs.records;
    ChooseKind(ours, theirs.kind);
    ours.min_values = std::min(ours.min_values, theirs.min_values);
    ours.max_values = std::max(ours.max_values, theirs.max_values);
    ours.min_bytes = std::min(ours.min_bytes, theirs.min_bytes);
    ours.max_bytes = std::max(ours.max_bytes, theirs.max_bytes);
  }
  ForgetLayouts();
}

void Schema::SetTypes(const FeatureTypes& types) {
  for (const auto& [name, type] : types) {
    const auto [it, is_new] = features_.try_emplace(name);
    FeatureSchema& feature = it->second;
    feature.type = type;
    if (is_new) feature.kind = KindOfType(type.dtype);
    if (!ShapeFits(feature)) feature.type.shape.clear();
  }
}

FeatureTypes Schema::Types() const {
  FeatureTypes types;
  for (const auto& [name, feature] : features_) {
    if (!feature.type.empty()) types[name] = feature.type;
  }
  return types;
}

void Schema::RemoveNamesAlone() {
  std::erase_if(features_, [](const auto& feature) { return feature.second.is_name_alone(); });
}

bool Schema::knows_steps() const {
  return std::ranges::all_of(features_,
                             [](const auto& feature) { return feature.second.knows_steps; });
}

void Schema::SetSteps(const Schema& found) {
  for (auto& [name, feature] : features_) {
    const auto it = found.features_.find(name);
    if (it == found.features_.end()) continue;
    feature.min_step_values = it->second.min_step_values;
    feature.max_step_values = it->second.max_step_values;
    feature.knows_steps = it->second.knows_steps;
  }
}

nlohmann::json Schema::ToJson() const {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, feature] : features_) {
    nlohmann::json& entry = json[name];
    entry = {{"kind", FeatureKindName(feature.kind)},
             {"records", feature.records},
             {"min_values", feature.records == 0 ? 0 : feature.min_values},
             {"max_values", feature.max_values}};
    if (feature.is_list) entry["list"] = true;
    if (feature.has_step_values()) {
      entry["min_step_values"] = feature.min_step_values;
      entry["max_step_values"] = feature.max_step_values;
    }
    if (feature.mixed_kinds > 0) entry["mixed_kinds"] = feature.mixed_kinds;
    if (feature.knows_kinds && !AllAreOfKind(feature)) {
      nlohmann::json& kinds = entry["kinds"] = nlohmann::json::object();
      for (FeatureKind kind : kAllKinds) {
        const uint64_t count = feature.of_kind[static_cast<size_t>(kind)];
        if (count > 0) kinds[std::string(FeatureKindName(kind))] = count;
      }
    }
    // With mixed kinds, also where `kind` is another one.
    if (feature.min_bytes <= feature.max_bytes) {
      entry["min_bytes"] = feature.min_bytes;
      entry["max_bytes"] = feature.max_bytes;
    }
    if (!feature.type.dtype.empty()) entry["dtype"] = feature.type.dtype;
    if (!feature.type.shape.empty()) entry["shape"] = feature.type.shape;
  }
  return json;
}

absl::Status Schema::FromJson(const nlohmann::json& json, uint64_t records, uint64_t not_examples) {
  *this = Schema();
  records_ = records;
  not_examples_ = not_examples;
  JsonMembers members;
  if (!json.is_object()) members.Fail("the features are not an object");
  if (not_examples > records) {
    members.Fail(
        fmt::format("not_examples is {}, but there are only {} records", not_examples, records));
  }
  for (const auto& [name, entry] : json.items()) {
    if (!entry.is_object()) members.Fail("a feature is not an object");
    if (!members.status().ok()) break;
    FeatureSchema& feature = features_[name];
    const std::string kind = members.Text(entry, "kind");
    bool known = false;
    for (FeatureKind k : kAllKinds) {
      if (kind != FeatureKindName(k)) continue;
      feature.kind = k;
      known = true;
    }
    if (!known) members.Fail(fmt::format("unknown feature kind '{}'", kind));
    // A name may appear twice in a SequenceExample, as a context feature and as a feature list.
    feature.records =
        members.Number(entry, "records", records > UINT64_MAX / 2 ? records : 2 * records);
    feature.min_values = members.Number(entry, "min_values");
    feature.max_values = members.Number(entry, "max_values");
    if (entry.contains("list")) feature.is_list = members.Flag(entry, "list");
    if (entry.contains("min_step_values") || entry.contains("max_step_values")) {
      feature.max_step_values = members.Number(entry, "max_step_values", feature.max_values);
      feature.min_step_values = members.Number(entry, "min_step_values", feature.max_step_values);
      if (!feature.is_list) members.Fail("only feature lists have steps");
    }
    if (entry.contains("mixed_kinds")) {
      feature.mixed_kinds = members.Number(entry, "mixed_kinds", feature.records);
    }
    feature.knows_steps = !feature.is_list || feature.max_values == 0 || feature.has_step_values();
    feature.of_kind[static_cast<size_t>(feature.kind)] = feature.records - feature.mixed_kinds;
    // Earlier versions did not write how many records have each kind.
    feature.knows_kinds = entry.contains("kinds") || feature.records == 0 || AllAreOfKind(feature);
    if (entry.contains("kinds") && members.status().ok()) {
      const nlohmann::json& kinds = entry["kinds"];
      if (!kinds.is_object()) members.Fail("the kinds of a feature are not an object");
      for (const auto& [key, count] : kinds.items()) {
        if (!IsKindName(key)) members.Fail(fmt::format("unknown feature kind '{}'", key));
      }
      uint64_t left = feature.records;
      for (FeatureKind k : kAllKinds) {
        const std::string key(FeatureKindName(k));
        uint64_t& count = feature.of_kind[static_cast<size_t>(k)];
        count = kinds.contains(key) ? members.Number(kinds, key.c_str(), left) : 0;
        left -= std::min(left, count);
      }
      const uint64_t mixed = feature.mixed_kinds;
      ChooseKind(feature, FeatureKind::kNone);
      if (kind != FeatureKindName(feature.kind) || mixed != feature.mixed_kinds) {
        members.Fail("the kinds of a feature contradict its kind or mixed_kinds");
      }
    }
    if (entry.contains("min_bytes") || entry.contains("max_bytes")) {
      feature.min_bytes = members.Number(entry, "min_bytes");
      feature.max_bytes = members.Number(entry, "max_bytes");
      if (feature.min_bytes > feature.max_bytes)
        members.Fail("min_bytes is greater than max_bytes");
    }
    if (feature.min_values > feature.max_values)
      members.Fail("min_values is greater than max_values");
    if (feature.records == 0) feature.min_values = UINT64_MAX;
    if (entry.contains("dtype")) feature.type.dtype = members.Text(entry, "dtype");
    if (entry.contains("shape")) {
      for (const nlohmann::json& size : members.Array(entry, "shape")) {
        if (!size.is_number_integer()) members.Fail("the sizes of a shape are not integers");
        feature.type.shape.push_back(members.status().ok() ? size.get<int64_t>() : 0);
      }
      if (!ShapeFits(feature)) members.Fail("a shape is not that of its feature's values");
    }
  }
  return members.status();
}

std::string DifferenceOf(const Schema& stored, const Schema& found) {
  if (stored.records() != found.records()) {
    return fmt::format("{} records instead of {}", stored.records(), found.records());
  }
  if (stored.not_examples() != found.not_examples()) {
    return fmt::format("{} records that are not Examples instead of {}", stored.not_examples(),
                       found.not_examples());
  }
  for (const auto& [name, feature] : found.features()) {
    if (stored.features().count(name) == 0) return fmt::format("no feature '{}'", name);
  }
  for (const auto& [name, theirs] : stored.features()) {
    const auto it = found.features().find(name);
    if (it == found.features().end() && theirs.records == 0) continue;  // declared, and never given
    if (it == found.features().end()) return fmt::format("feature '{}', which no record has", name);
    const FeatureSchema& ours = it->second;
    std::string wrong;
    const auto compare = [&](std::string_view what, auto in_stored, auto in_found) {
      if (in_stored == in_found) return;
      wrong += fmt::format("{}{} {} instead of {}", wrong.empty() ? "" : ", ", what, in_stored,
                           in_found);
    };
    compare("records", theirs.records, ours.records);
    compare("list", theirs.is_list, ours.is_list);
    compare("min_values", theirs.min_values, ours.min_values);
    compare("max_values", theirs.max_values, ours.max_values);
    if (theirs.has_step_values()) {
      compare("min_step_values", theirs.min_step_values, ours.min_step_values);
      compare("max_step_values", theirs.max_step_values, ours.max_step_values);
    }
    compare("mixed kinds", theirs.mixed_kinds > 0, ours.mixed_kinds > 0);
    if (theirs.mixed_kinds == 0 && ours.mixed_kinds == 0) {
      compare("kind", FeatureKindName(theirs.kind), FeatureKindName(ours.kind));
      compare("min_bytes", theirs.min_bytes, ours.min_bytes);
      compare("max_bytes", theirs.max_bytes, ours.max_bytes);
    }
    // Where something else differs, so do these.
    if (wrong.empty() && theirs.knows_kinds && ours.knows_kinds) {
      for (FeatureKind kind : kAllKinds) {
        const size_t i = static_cast<size_t>(kind);
        compare(fmt::format("records of kind {}", FeatureKindName(kind)), theirs.of_kind[i],
                ours.of_kind[i]);
      }
    }
    if (!wrong.empty()) return fmt::format("feature '{}': {}", name, wrong);
  }
  return "";
}

}  // namespace shardfeed
