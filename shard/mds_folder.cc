#include "shard/mds_folder.h"

#include <string_view>
#include <unordered_set>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/names.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

// A shard takes some hundred bytes.
constexpr uint64_t kMaxJsonBytes = 512 << 20;

bool LeadsOutside(std::string_view name) {
  return name.empty() || name.starts_with('/') || name.find('\0') != name.npos ||
         fmt::format("/{}/", name).find("/../") != std::string::npos;
}

}  // namespace

absl::StatusOr<std::optional<ShardSet>> ResolveMdsFolder(const std::string& directory,
                                                         const Folder& folder) {
  const std::string path = JoinPath(directory, kMdsFolderIndex);
  const absl::StatusOr<std::string> text = ReadWhole(path, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  Json json;
  const absl::Status parsed = ParseBoundedJson(*text, &json);
  // Many programs have a file of this name.
  if (!parsed.ok() || !json.is_object()) return std::nullopt;
  const auto shards = json.find("shards");
  if (shards == json.end() || !shards->is_array()) return std::nullopt;
  const std::unordered_set<std::string> files(folder.files.begin(), folder.files.end());
  ShardSet set;
  set.directory = directory;
  for (const Json& shard : *shards) {
    JsonMembers members;
    if (!shard.is_object() || members.Text(shard, "format") != "mds") return std::nullopt;
    std::string name = members.Text(members.Object(shard, "raw_data"), "basename");
    if (!members.status().ok()) {
      return absl::DataLossError(fmt::format("{}: shard {}: {}; name the shards by a glob", path,
                                             set.paths.size(),
                                             std::string(members.status().message())));
    }
    // Of a shard that is compressed, opening it tells that.
    const auto zip = shard.find("zip_data");
    if (zip != shard.end() && zip->is_object() && !files.contains(name)) {
      JsonMembers zip_members;
      name = zip_members.Text(*zip, "basename");
    }
    if (LeadsOutside(name)) {
      return absl::DataLossError(
          fmt::format("{}: shard {}: its name {:?} leads outside the folder; name the shards by a "
                      "glob",
                      path, set.paths.size(), name));
    }
    // What merged folders have below them is not listed here.
    if (name.find('/') == name.npos && !files.contains(name)) {
      return absl::DataLossError(
          fmt::format("{}: lists the shard {}, which is missing in the folder; to read the others, "
                      "name them by a glob",
                      path, name));
    }
    set.paths.push_back(JoinPath(directory, name));
  }
  if (set.paths.empty()) return std::nullopt;
  return set;
}

}  // namespace shardfeed
