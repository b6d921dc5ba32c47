#include "shard/writing/output_folder.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "io/folder.h"
#include "io/remedy.h"
#include "net/open.h"
#include "net/store.h"
#include "shard/manifest/manifest.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

// Visits the entries of `directory` that are named like a shard of the spec's stem and suffix, with
// any number, followed by `ending`. The shard name passed to `visit` lacks the ending; the type is
// that of a link itself, not of its target.
absl::Status ForEachNameOf(
    const OutputSpec& spec, const std::string& directory, std::string_view ending,
    const std::function<void(const ShardNameView& shard, const std::string& path, fs::file_type)>&
        visit) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(directory);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!name.ends_with(ending)) continue;
    const auto shard = ViewShardName(std::string_view(name).substr(0, name.size() - ending.size()));
    if (!shard || shard->stem != spec.stem || shard->suffix != spec.suffix) continue;
    const std::string path = JoinPath(directory, name);
    std::error_code gone;
    visit(*shard, path, fs::symlink_status(path, gone).type());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ForEachShardOf(const OutputSpec& spec,
                            const std::function<void(const std::string&)>& visit) {
  if (IsRemote(spec.directory)) {
    const absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(spec.directory);
    if (!store.ok()) return store.status();
    const absl::StatusOr<ObjectListing> listing = (*store)->List(spec.directory);
    if (!listing.ok()) return listing.status();
    for (const ObjectInfo& object : listing->objects) {
      const std::string_view name = SplitPath(object.path).name;
      const auto shard = ViewShardName(name);
      if (shard && shard->stem == spec.stem && shard->suffix == spec.suffix) {
        visit(std::string(name));
      }
    }
    return absl::OkStatus();
  }
  const std::string directory = spec.directory.empty() ? "." : spec.directory;
  return ForEachNameOf(spec, directory, "",
                       [&](const ShardNameView&, const std::string& path, fs::file_type type) {
                         if (type == fs::file_type::directory) return;
                         visit(fs::path(path).filename().string());
                       });
}

absl::Status CheckIndexesAreFree(const OutputSpec& spec) {
  absl::Status status;
  absl::Status listed = ForEachNameOf(
      spec, SidecarPath(spec.directory), ".index",
      [&](const ShardNameView& shard, const std::string& path, fs::file_type type) {
        const bool gone = type == fs::file_type::not_found || type == fs::file_type::none;
        if (gone || type == fs::file_type::regular || (spec.count && shard.count != *spec.count)) {
          return;
        }
        status =
            type == fs::file_type::directory
                ? absl::FailedPreconditionError(
                      fmt::format("{}: expected an index, found a folder; move it away", path))
                : WithRemedy(absl::AlreadyExistsError(fmt::format(
                                 "{}: expected an index, found a link or a special file; remove "
                                 "it",
                                 path)),
                             {"overwrite", "", "replace it"});
      });
  if (!listed.ok() && !absl::IsNotFound(listed)) return listed;
  return status;
}

absl::StatusOr<std::vector<std::string>> OldShards(const OutputSpec& spec) {
  std::vector<std::string> old;
  const auto add = [&](const std::string& name) {
    const uint64_t index = ParseShardName(name)->index;
    const bool taken =
        index < *spec.count && name == ShardName(spec.stem, index, *spec.count, spec.suffix);
    if (!taken) old.push_back(name);
  };
  absl::Status status = ForEachShardOf(spec, add);
  if (!status.ok()) return status;
  // The old dataset may have had another suffix. Remove only files in its manifest that are named
  // like shards of this stem.
  absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(spec.directory, spec.stem));
  if (manifest.ok() && manifest->suffix != spec.suffix) {
    for (const ManifestShard& listed : manifest->shards) {
      const auto shard = ParseShardName(listed.file);
      if (shard && shard->stem == spec.stem && shard->suffix == manifest->suffix &&
          listed.file.find('/') == std::string::npos) {
        old.push_back(listed.file);
      }
    }
  } else if (!manifest.ok() && !absl::IsNotFound(manifest.status()) &&
             !absl::IsDataLoss(manifest.status())) {
    return manifest.status();
  }
  return old;
}

}  // namespace shardfeed
