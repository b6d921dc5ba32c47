#include "shard/spec/mds_folder.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/formats/mds_file.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

// A shard takes some hundred bytes.
constexpr uint64_t kMaxJsonBytes = 512 << 20;

bool LeadsOutside(std::string_view name) {
  return name.starts_with('/') || name.find('\0') != name.npos ||
         fmt::format("/{}/", name).find("/../") != std::string::npos;
}

struct Listing {
  std::optional<std::vector<MdsListed>> shards;
  std::string why_none;  // why there are none
};

absl::StatusOr<Listing> ReadListing(const std::string& directory) {
  const std::string path = JoinPath(directory, kMdsFolderIndex);
  const absl::StatusOr<std::string> text = ReadWhole(path, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  Json json;
  // Many programs have a file of this name.
  const absl::Status parsed = ParseBoundedJson(*text, &json);
  if (!parsed.ok()) return Listing{std::nullopt, std::string(parsed.message())};
  const Listing none = {std::nullopt, "it lists no MDS shards"};
  if (!json.is_object()) return none;
  const auto shards = json.find("shards");
  if (shards == json.end() || !shards->is_array() || shards->empty()) return none;
  std::vector<MdsListed> all;
  for (const Json& shard : *shards) {
    JsonMembers members;
    if (!shard.is_object() || members.Text(shard, "format") != "mds") return none;
    MdsListed listed;
    const Json& raw = members.Object(shard, "raw_data");
    listed.name = members.Text(raw, "basename");
    listed.bytes = members.Number(raw, "bytes");
    listed.samples = members.Number(shard, "samples");
    const auto zip = shard.find("zip_data");
    if (zip != shard.end() && zip->is_object()) listed.zip_name = members.Text(*zip, "basename");
    const auto wrong = [&](std::string_view what) {
      return absl::DataLossError(
          fmt::format("{}: shard {}: {}; name the shards by a glob", path, all.size(), what));
    };
    if (!members.status().ok()) return wrong(std::string(members.status().message()));
    for (const std::string& name : {listed.name, listed.zip_name}) {
      if (LeadsOutside(name)) {
        return wrong(fmt::format("its name {:?} leads outside the folder", name));
      }
    }
    if (listed.name.empty()) return wrong("it has no name");
    all.push_back(std::move(listed));
  }
  return Listing{std::move(all), {}};
}

}  // namespace

absl::StatusOr<std::optional<std::vector<MdsListed>>> ReadMdsFolder(const std::string& directory) {
  absl::StatusOr<Listing> listing = ReadListing(directory);
  if (!listing.ok()) return listing.status();
  return std::move(listing->shards);
}

absl::StatusOr<std::optional<ShardSet>> ResolveMdsFolder(const std::string& directory,
                                                         const Folder& folder) {
  const absl::StatusOr<Listing> listing = ReadListing(directory);
  if (!listing.ok()) return listing.status();
  if (!listing->shards) {
    if (std::none_of(folder.files.begin(), folder.files.end(), IsNamedMds)) return std::nullopt;
    return absl::DataLossError(fmt::format(
        "{}: {}; to read the MDS shards beside it, name them by a glob: {}",
        JoinPath(directory, kMdsFolderIndex), listing->why_none, JoinPath(directory, "*.mds")));
  }
  const std::unordered_set<std::string> files(folder.files.begin(), folder.files.end());
  std::unordered_set<std::string> seen;
  ShardSet set;
  set.directory = directory;
  for (const MdsListed& listed : *listing->shards) {
    // Opening a compressed shard is an error that says how to decompress it.
    const bool compressed = !listed.zip_name.empty() && !files.contains(listed.name);
    const std::string& name = compressed ? listed.zip_name : listed.name;
    if (!seen.insert(std::filesystem::path(name).lexically_normal().string()).second) {
      return absl::DataLossError(
          fmt::format("{}: lists the shard {} twice; name the shards by a glob",
                      JoinPath(directory, kMdsFolderIndex), name));
    }
    // The subfolders of merged folders are not listed here.
    if (name.find('/') == name.npos && !files.contains(name)) {
      return absl::DataLossError(
          fmt::format("{}: lists the shard {}, which is missing in the folder; to read the others, "
                      "name them by a glob",
                      JoinPath(directory, kMdsFolderIndex), name));
    }
    set.paths.push_back(JoinPath(directory, name));
  }
  return set;
}

bool HoldsMdsShards(const std::string& directory, const Folder& folder) {
  if (!folder.HasFile(kMdsFolderIndex)) return false;
  const auto shards = ReadMdsFolder(directory);
  if (!shards.ok() || !*shards) return false;
  const std::unordered_set<std::string> files(folder.files.begin(), folder.files.end());
  return std::any_of((*shards)->begin(), (*shards)->end(), [&](const MdsListed& listed) {
    return files.contains(listed.name) || files.contains(listed.zip_name);
  });
}

}  // namespace shardfeed
