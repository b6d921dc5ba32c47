#include "convert/features/feature_choice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/input/text_reader.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"
#include "shard/manifest/manifest_seal.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxBytes = 64 << 20;

// The first name that appears twice in the object that a sound document is; the parser itself
// would take the last of both.
std::optional<std::string> NameTwice(const std::string& text) {
  std::set<std::string> names;
  std::optional<std::string> twice;
  const auto note = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key && !twice) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!names.insert(name).second) twice = name;
    }
    return true;
  };
  const nlohmann::json json = nlohmann::json::parse(text, note);
  return json.is_object() ? twice : std::nullopt;
}

}  // namespace

bool FeatureChoice::Chooses(std::string_view name) const {
  return columns.empty() || std::find(columns.begin(), columns.end(), name) != columns.end();
}

std::string ChosenKind::Origin() const { return like.empty() ? "the schema" : like; }

std::string ChosenKind::Reason() const {
  return like.empty() ? "as the schema says" : "as in " + like;
}

const ChosenKind* FeatureChoice::KindOf(std::string_view name) const {
  const auto it = kinds.find(name);
  return it == kinds.end() ? nullptr : &it->second;
}

std::vector<std::string> FeatureChoice::NotesOfUnused(
    const std::function<bool(const std::string& name)>& is_used,
    const std::function<std::string(const std::string& name, const std::string& origin)>& one,
    const std::function<std::string(const NameList& names, const std::string& origin)>& many)
    const {
  constexpr size_t kMostNotes = 3;
  std::vector<std::string> notes;
  std::map<std::string, NameList> names_by_origin;
  for (const auto& [name, chosen] : kinds) {
    if (is_used(name)) continue;
    names_by_origin[chosen.Origin()].Add(Excerpt(name));
    if (notes.size() <= kMostNotes) notes.push_back(one(name, chosen.Origin()));
  }
  if (notes.size() <= kMostNotes) return notes;
  notes.clear();
  for (const auto& [origin, names] : names_by_origin) notes.push_back(many(names, origin));
  return notes;
}

absl::StatusOr<ChosenKinds> ReadFeatureKinds(const std::string& path) {
  absl::StatusOr<std::string> text = ReadText(path, kMaxBytes);
  if (!text.ok()) return text.status();
  const auto error = [&path](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {}; expected JSON such as {{\"age\": \"int64\", \"name\": \"bytes\"}}, or the "
        "manifest of a dataset",
        path, what));
  };
  nlohmann::json json;
  const absl::Status parsed = ParseBoundedJson(*text, &json);
  if (!parsed.ok()) {
    return error(fmt::format("not a JSON object: {}", std::string(parsed.message())));
  }
  if (!json.is_object()) return error("not a JSON object");
  const bool is_manifest = json.value("format", nlohmann::json()) == kManifestFormat;
  if (is_manifest) {
    if (absl::Status seal = CheckManifestSeal(*text, json); !seal.ok()) {
      return absl::DataLossError(fmt::format("{}: {}", path, std::string(seal.message())));
    }
  }
  if (is_manifest && !json.value("features", nlohmann::json()).is_object()) {
    return error("a manifest without features");
  }
  if (!is_manifest) {
    if (const std::optional<std::string> twice = NameTwice(*text)) {
      return error(fmt::format("{} appears twice", Excerpt(*twice)));
    }
  }
  ChosenKinds kinds;
  for (const auto& [name, entry] : (is_manifest ? json["features"] : json).items()) {
    const nlohmann::json kind =
        is_manifest && entry.is_object() ? entry.value("kind", nlohmann::json()) : entry;
    // A feature that no record of that dataset had has no kind.
    if (is_manifest && kind == "none") continue;
    constexpr std::array<ColumnKind, 3> kKinds = {ColumnKind::kInt64, ColumnKind::kFloat,
                                                  ColumnKind::kBytes};
    const auto known = std::find_if(kKinds.begin(), kKinds.end(), [&kind](ColumnKind k) {
      return kind.is_string() && kind.get<std::string>() == ColumnKindName(k);
    });
    if (known == kKinds.end()) {
      return error(fmt::format("the kind of {} must be int64, float or bytes, got {}",
                               Excerpt(name),
                               kind.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    }
    kinds.emplace(name, *known);
  }
  return kinds;
}

ChosenKinds KindsLike(const Schema& schema, const std::string& name) {
  ChosenKinds kinds;
  for (const auto& [feature_name, feature] : schema.features()) {
    if (feature.mixed_kinds > 0 || feature.kind == FeatureKind::kNone) continue;
    kinds.emplace(feature_name,
                  ChosenKind(feature.kind == FeatureKind::kInt64   ? ColumnKind::kInt64
                             : feature.kind == FeatureKind::kFloat ? ColumnKind::kFloat
                                                                   : ColumnKind::kBytes,
                             name));
  }
  return kinds;
}

}  // namespace shardfeed
