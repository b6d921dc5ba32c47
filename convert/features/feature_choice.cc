#include "convert/features/feature_choice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "convert/input/excerpt.h"
#include "convert/input/text_reader.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"
#include "shard/manifest_seal.h"

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

std::optional<ColumnKind> FeatureChoice::KindOf(std::string_view name) const {
  const auto it = kinds.find(name);
  if (it == kinds.end()) return std::nullopt;
  return it->second;
}

absl::StatusOr<std::map<std::string, ColumnKind, std::less<>>> ReadFeatureKinds(
    const std::string& path) {
  absl::StatusOr<std::string> text = ReadText(path, kMaxBytes);
  if (!text.ok()) return text.status();
  const auto error = [&path](std::string_view what) {
    return absl::DataLossError(fmt::format(
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
      return error(std::string(seal.message()));
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
  std::map<std::string, ColumnKind, std::less<>> kinds;
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

std::map<std::string, ColumnKind, std::less<>> KindsOf(const Schema& schema) {
  std::map<std::string, ColumnKind, std::less<>> kinds;
  for (const auto& [name, feature] : schema.features()) {
    if (feature.mixed_kinds > 0) continue;
    if (feature.kind == FeatureKind::kInt64) kinds.emplace(name, ColumnKind::kInt64);
    if (feature.kind == FeatureKind::kFloat) kinds.emplace(name, ColumnKind::kFloat);
    if (feature.kind == FeatureKind::kBytes) kinds.emplace(name, ColumnKind::kBytes);
  }
  return kinds;
}

}  // namespace shardfeed
