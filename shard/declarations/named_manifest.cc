#include "shard/declarations/named_manifest.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "net/open.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"

namespace shardfeed {
namespace {

// The manifest of the dataset whose stem, with its folder, is `name`.
std::string ManifestOfStem(const std::string& name) {
  const PathParts parts = SplitPath(name);
  return ManifestPath(parts.directory, parts.name);
}

// Whether sizes of two shapes agree; -1 is any.
bool IsSameSize(int64_t a, int64_t b) { return a == b || a == -1 || b == -1; }

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

bool NamesDataset(const std::string& name) {
  std::error_code error;
  if (IsRemote(name) || std::filesystem::is_directory(name, error)) return true;
  if (Exists(name)) return name.ends_with(kManifestEnding);
  return name.find('@') != name.npos || name.ends_with(kManifestEnding) ||
         Exists(ManifestOfStem(name));
}

absl::StatusOr<NamedManifest> ReadNamedManifest(const std::string& name) {
  std::string path = name;
  std::optional<ShardSet> set;
  if (!name.ends_with(kManifestEnding)) {
    path = ManifestOfStem(name);
    if (IsRemote(name) || !Exists(path)) {
      absl::StatusOr<ShardSet> found = ResolveSpec(name);
      if (!found.ok()) return found.status();
      if (!found->sharded_name) {
        return absl::FailedPreconditionError(
            fmt::format("{}: is not a dataset with a manifest; name one as folder/name@N", name));
      }
      path = ManifestPath(found->directory, found->stem);
      set = *std::move(found);
    }
  }
  absl::StatusOr<Manifest> manifest = ReadManifest(path);
  if (set && absl::IsNotFound(manifest.status())) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: the dataset has no manifest, so its classes and options are unknown", name));
  }
  if (!manifest.ok()) return manifest.status();
  if (set && !Describes(*manifest, *set)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: its manifest {} describes {} shards instead of {}", name, path,
                    manifest->shards.size(), set->paths.size()));
  }
  return NamedManifest{name, *std::move(manifest)};
}

absl::Status CheckIsLike(const Schema& schema, bool whole, std::string_view dataset,
                         const NamedManifest& like) {
  const auto& theirs = like.manifest.schema.features();
  for (const auto& [name, feature] : schema.features()) {
    const auto other = theirs.find(name);
    if (other == theirs.end()) {
      return absl::FailedPreconditionError(
          fmt::format("{}: has the feature {}, which {} does not have; leave it out here, or "
                      "convert both alike",
                      dataset, QuotedName(name), like.name));
    }
    const bool known = feature.kind != FeatureKind::kNone && feature.mixed_kinds == 0 &&
                       other->second.kind != FeatureKind::kNone && other->second.mixed_kinds == 0;
    if (known && feature.kind != other->second.kind) {
      return absl::FailedPreconditionError(
          fmt::format("{}: the feature {} is {} here and {} in {}; convert both alike", dataset,
                      QuotedName(name), FeatureKindName(feature.kind),
                      FeatureKindName(other->second.kind), like.name));
    }
    const std::vector<int64_t>& here = feature.type.shape;
    const std::vector<int64_t>& there = other->second.type.shape;
    if (!here.empty() && !there.empty() && !std::ranges::equal(here, there, IsSameSize)) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: the feature {} has the shape [{}] here and [{}] in {}; convert both alike", dataset,
          QuotedName(name), fmt::join(here, ", "), fmt::join(there, ", "), like.name));
    }
  }
  if (!whole || schema.records() == 0) return absl::OkStatus();
  for (const auto& [name, feature] : theirs) {
    const auto here = schema.features().find(name);
    const bool is_there = here != schema.features().end() && here->second.records > 0;
    if (feature.records < like.manifest.schema.records() || is_there) continue;
    return absl::FailedPreconditionError(
        fmt::format("{}: lacks the feature {}, which all records of {} have; convert both alike",
                    dataset, QuotedName(name), like.name));
  }
  return absl::OkStatus();
}

std::optional<std::string> OptionOf(const Manifest& manifest, std::string_view option) {
  const auto options = manifest.made_by.find("options");
  if (options == manifest.made_by.end()) return std::nullopt;
  const std::string text = " " + options->second + " ";
  const std::string start = fmt::format(" {} ", option);
  const size_t at = text.find(start);
  if (at == text.npos) return std::nullopt;
  const size_t value = at + start.size();
  const size_t end = std::min(text.find(" --", value), text.size() - 1);
  return text.substr(value, end - value);
}

}  // namespace shardfeed
