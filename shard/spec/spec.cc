#include "shard/spec/spec.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/errno_status.h"
#include "net/open.h"
#include "net/store.h"
#include "net/url.h"
#include "shard/commit/staging.h"
#include "shard/manifest/manifest.h"
#include "shard/names/braces.h"
#include "shard/names/file_names.h"
#include "shard/spec/at_form.h"
#include "shard/spec/described_folder.h"
#include "shard/spec/folder_listing.h"
#include "shard/spec/mds_folder.h"

namespace shardfeed {
namespace {

// ---- Globs

// Lists a folder. If its path was found through a wildcard and the folder does not exist, the
// listing is empty, since the pattern just does not match. A folder that the user named must exist.
absl::StatusOr<Folder> ListMatch(const std::string& path, bool behind_wildcard, Versions* seen) {
  absl::StatusOr<Folder> folder = ListCommitted(path, seen);
  const bool absent =
      absl::IsNotFound(folder.status()) || absl::IsFailedPrecondition(folder.status());
  if (behind_wildcard && absent) return Folder();
  return folder;
}

// Returns the folders that match a pattern. After a wildcard, not all of them need to exist.
absl::StatusOr<std::vector<std::string>> ExpandFolders(std::string_view pattern, Versions* seen) {
  std::vector<std::string> found = {pattern.starts_with('/') ? "/" : ""};
  if (IsRemote(pattern)) {
    const UrlParts parts = SplitUrl(pattern);
    found = {fmt::format("{}://{}", parts.scheme, parts.host)};
    pattern = parts.key;
  }
  bool behind_wildcard = false;
  while (!pattern.empty()) {
    const std::string part(pattern.substr(0, pattern.find('/')));
    pattern.remove_prefix(std::min(part.size() + 1, pattern.size()));
    if (part.empty()) continue;
    std::vector<std::string> next;
    for (const std::string& directory : found) {
      if (!HasWildcard(part)) {
        next.push_back(JoinPath(directory, part));
        continue;
      }
      absl::StatusOr<Folder> folder = ListMatch(directory, behind_wildcard, seen);
      if (!folder.ok()) return folder.status();
      for (const std::string& name : folder->folders) {
        if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) {
          next.push_back(JoinPath(directory, name));
        }
      }
    }
    behind_wildcard |= HasWildcard(part);
    found = std::move(next);
  }
  return found;
}

absl::StatusOr<ShardSet> ResolveGlob(const std::string& spec, Versions* seen) {
  // fnmatch would treat '**' like '*', and deeper files would silently be left out.
  if (fmt::format("/{}/", spec).find("/**/") != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '**' is not supported; write one * for each level of folders", spec));
  }
  const PathParts parts = SplitPath(spec);
  absl::StatusOr<std::vector<std::string>> directories = ExpandFolders(parts.directory, seen);
  if (!directories.ok()) return directories.status();
  const std::string pattern(parts.name);
  const auto matches = [&pattern](const std::string& name) {
    return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
  };
  std::vector<std::pair<std::string, Folder>> listed;
  for (const std::string& directory : *directories) {
    absl::StatusOr<Folder> folder = ListMatch(directory, HasWildcard(parts.directory), seen);
    if (!folder.ok()) return folder.status();
    listed.emplace_back(directory, *std::move(folder));
  }
  Names names;
  std::vector<std::string> left_out;
  for (const auto& [directory, folder] : listed) {
    for (const std::string& name : folder.files) {
      if (!matches(name)) continue;
      if (IsSidecar(name)) {
        left_out.push_back(name);
      } else {
        names.Add(directory, name);
      }
    }
    for (const std::string& name : folder.folders) {
      if (matches(name)) left_out.push_back(name + "/");
    }
  }
  if (names.sets.empty() && names.spark.empty() && names.plain.empty()) {
    std::sort(left_out.begin(), left_out.end());
    return absl::NotFoundError(fmt::format(
        "{}: no file matches{}{}", spec,
        left_out.empty() ? "" : "; folders and sidecars are left out: ", FirstOf(left_out)));
  }
  return OnlyOne(spec, names, "name one dataset by stem@N, or narrow the pattern");
}

// ---- Folders that are datasets

absl::Status SeveralSets(const std::string& spec, Names names) {
  names.plain.clear();
  return absl::InvalidArgumentError(
      fmt::format("{}: holds several sets of shards; name one of them: "
                  "{}",
                  spec, fmt::join(Describe(names), ", ")));
}

absl::Status SetsBesideMds(const std::string& spec, Names names) {
  names.plain.clear();
  return absl::InvalidArgumentError(fmt::format(
      "{}: holds MDS shards, which its index.json lists, and other sets; name the MDS shards by a "
      "glob, {}, or one of: {}",
      spec, JoinPath(spec, "*.mds"), fmt::join(Describe(names), ", ")));
}

absl::StatusOr<ShardSet> ResolveFolder(const std::string& spec, Versions* seen) {
  Folder sidecars;
  absl::StatusOr<Folder> folder = ListCommitted(spec, seen, &sidecars);
  if (!folder.ok()) return folder.status();
  std::vector<std::string> manifests;
  for (const std::string& name : sidecars.files) {
    if (name.ends_with(kManifestEnding)) manifests.push_back(name);
  }
  Names names;
  names.AddAllButSidecars(spec, folder->files);
  if (!manifests.empty()) {
    absl::StatusOr<ShardSet> described = ResolveManifests(spec, *folder, manifests);
    // Nothing describes the others.
    const bool more = names.sets.size() > 1 || !names.spark.empty();
    if (described.ok() && more) return SeveralSets(spec, std::move(names));
    if (described.ok() && HoldsMdsShards(spec, *folder)) return SetsBesideMds(spec, names);
    return described;
  }
  if (folder->HasFile(kTfdsInfo)) {
    const auto splits = ReadTfdsSplits(JoinPath(spec, kTfdsInfo));
    if (!splits.ok()) return splits.status();
    if (splits->size() == 1) return splits->front().second.Resolve(spec, *folder);
    std::vector<std::string> names;
    for (const auto& [name, split] : *splits) names.push_back(JoinPath(spec, name));
    if (!names.empty()) {
      return absl::InvalidArgumentError(fmt::format("{}: a TFDS dataset of {} splits; name one: {}",
                                                    spec, names.size(), fmt::join(names, ", ")));
    }
  }
  if (!names.sets.empty() && HoldsMdsShards(spec, *folder)) return SetsBesideMds(spec, names);
  if (names.sets.empty() && folder->HasFile(kMdsFolderIndex)) {
    absl::StatusOr<std::optional<ShardSet>> listed = ResolveMdsFolder(spec, *folder);
    if (!listed.ok()) return listed.status();
    if (listed->has_value()) return **std::move(listed);
  }
  if (!names.spark.empty() && names.sets.empty()) {
    if (!folder->HasFile("_SUCCESS")) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: the Spark job that wrote it did not finish: there is no _SUCCESS; to read the "
          "existing files anyway, name them by a glob: {}",
          spec, JoinPath(spec, "part-*")));
    }
    names.plain.clear();
    return SparkSet(spec, names);
  }
  if (names.sets.size() == 1 && names.spark.empty()) {
    return WholeSet(spec, names.sets.begin()->first, names.sets.begin()->second);
  }
  if (!names.sets.empty()) return SeveralSets(spec, std::move(names));
  if (names.plain.empty()) {
    std::vector<std::string> below;
    for (const std::string& name : folder->folders) {
      if (!name.starts_with('.')) below.push_back(JoinPath(spec, name));
    }
    std::sort(below.begin(), below.end());
    return absl::NotFoundError(fmt::format("{}: the folder holds no shards{}{}", spec,
                                           below.empty() ? "" : "; the folders in it are ",
                                           FirstOf(below)));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: the folder holds no set of shards, but {}; name files by a glob", spec,
                  fmt::join(Describe(names), ", ")));
}

// ---- Lists of files

// Checks that no file appears twice, even under different spellings of its folder.
absl::Status CheckNoneTwice(const std::vector<std::string>& paths) {
  std::unordered_map<std::string_view, std::string> real_folders;
  // The real path of each file, and the path as written.
  std::vector<std::pair<std::string, std::string_view>> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    const PathParts parts = SplitPath(path);
    const auto [folder, added] = real_folders.try_emplace(parts.directory, parts.directory);
    if (added && !IsRemote(path)) {
      std::error_code error;
      const std::filesystem::path written(parts.directory.empty() ? "." : parts.directory);
      const std::filesystem::path real = std::filesystem::canonical(written, error);
      if (!error) folder->second = real.string();
    }
    files.emplace_back(JoinPath(folder->second, parts.name), path);
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 1; i < files.size(); ++i) {
    if (files[i - 1].first != files[i].first) continue;
    const bool same = files[i - 1].second == files[i].second;
    return absl::InvalidArgumentError(fmt::format("{}: appears twice{}{}", files[i - 1].second,
                                                  same ? "" : ", also as ",
                                                  same ? "" : files[i].second));
  }
  return absl::OkStatus();
}

// ---- Datasets in stores

// Reads the manifest as a whole, so that it is fetched only once: sets the manifest and the version
// of `set`. A manifest that contradicts itself may still tell the names of the shards.
absl::StatusOr<Described> ReadNames(const std::string& path, ShardSet* set) {
  ObjectInfo info;
  absl::StatusOr<std::string> text = ReadObject(path, kMaxManifestBytes, &info);
  set->version = text.ok() ? DatasetVersion::OfObject(set->directory, set->stem, info)
                           : DatasetVersion(set->directory, set->stem);
  if (!text.ok()) return text.status();
  absl::StatusOr<Manifest> manifest = ParseManifest(*text, path);
  if (absl::IsDataLoss(manifest.status())) return ReadDescribed(path);
  if (!manifest.ok()) return manifest.status();
  set->manifest = std::make_shared<const Manifest>(*std::move(manifest));
  return Described{set->manifest->stem, set->manifest->shards.size(), set->manifest->suffix};
}

// What stem@N names: known from the manifest, if there is one, and then nothing is listed.
absl::StatusOr<ShardSet> ResolveRemoteAt(const std::string& spec, const std::string& directory,
                                         const AtForm& form, Versions* seen) {
  const std::string path = ManifestPath(directory, form.stem);
  ShardSet set;
  set.directory = directory;
  set.stem = form.stem;
  absl::StatusOr<Described> manifest = ReadNames(path, &set);
  if (absl::IsNotFound(manifest.status())) {
    // While a dataset is put into place, it has no manifest.
    absl::Status status = FinishCommit(directory, std::string(form.stem));
    if (!status.ok()) return status;
    manifest = ReadNames(path, &set);
  }
  seen->push_back(set.version);
  if (!manifest.ok() && !absl::IsNotFound(manifest.status())) return manifest.status();
  const bool fits = manifest.ok() && manifest->suffix == form.suffix &&
                    (!form.count || manifest->count == form.count);
  // Without a manifest, list what is listable: the names may be those of a larger set.
  if (!fits && SchemeOf(spec) != "http" && SchemeOf(spec) != "https") {
    absl::StatusOr<Folder> folder = ListFolder(directory);
    if (!folder.ok()) return folder.status();
    return ResolveAt(spec, directory, *folder, form);
  }
  if (!fits && !form.count) {
    return absl::NotFoundError(fmt::format(
        "{}: there is no manifest, and an HTTP server's folders cannot be listed; say how many "
        "shards there are: stem@N",
        spec));
  }
  const uint64_t count = fits ? *manifest->count : *form.count;
  if (count > kMaxShards) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: the number of shards must be at most {}, got {}", spec, kMaxShards, count));
  }
  if (!fits) set.manifest = nullptr;
  set.suffix = form.suffix;
  set.sharded_name = true;
  for (uint64_t i = 0; i < count; ++i) {
    set.paths.push_back(JoinPath(directory, ShardName(set.stem, i, count, set.suffix)));
  }
  return set;
}

// ---- Specs that are read

enum class Kind { kNothing, kFile, kFolder };

// What a store has under a name. It is a folder if the names of objects begin with it.
absl::StatusOr<Kind> LookInStore(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store.status();
  absl::Status status;
  if (!SplitUrl(path).key.empty()) {
    status = StatObject(path).status();
    if (status.ok()) return Kind::kFile;
    if (!absl::IsNotFound(status)) return status;
  }
  absl::StatusOr<Folder> folder = ListFolder(path);
  if (folder.ok()) return Kind::kFolder;
  if (absl::IsNotFound(folder.status())) return Kind::kNothing;
  // If the server cannot list, all that is known is that there is no such object.
  return absl::IsUnimplemented(folder.status()) && !status.ok() ? status : folder.status();
}

constexpr int kMaxListings = 20;

absl::Status CheckAtForm(const std::string& spec, const AtForm& form) {
  if (form.stem.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: the name before '@' is missing", spec));
  }
  if (form.count == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the number of shards must be at least 1 or *, got 0", spec));
  }
  return absl::OkStatus();
}

// A split of the TFDS dataset in the folder, by its name, or the error that says what there is.
absl::StatusOr<ShardSet> ResolveSplit(const std::string& spec, const std::string& directory,
                                      std::string_view name, std::string_view error,
                                      Versions* seen) {
  absl::StatusOr<Folder> folder = ListCommitted(directory, seen);
  if (!folder.ok()) return folder.status();
  if (folder->HasFile(kTfdsInfo)) {
    const auto splits = ReadTfdsSplits(JoinPath(directory, kTfdsInfo));
    if (!splits.ok()) return splits.status();
    for (const auto& [split_name, split] : *splits) {
      if (split_name == name) return split.Resolve(directory, *folder);
    }
  }
  return absl::NotFoundError(fmt::format("{}: {}{}", spec, error, Hint(directory, name, *folder)));
}

absl::StatusOr<ShardSet> ResolveRemote(const std::string& path, Versions* seen) {
  // Report an unknown scheme or missing credentials before anything else.
  if (absl::Status status = Store::Of(path).status(); !status.ok()) return status;
  const PathParts parts = SplitPath(path);
  const bool in_bucket = !SplitUrl(path).key.empty();
  const std::optional<AtForm> form = in_bucket ? ParseAtForm(parts.name) : std::nullopt;
  if (form && !HasWildcard(form->stem) && !HasWildcard(parts.directory)) {
    if (absl::Status status = CheckAtForm(path, *form); !status.ok()) return status;
    const std::string directory(parts.directory);
    return ResolveRemoteAt(path, directory, *form, seen);
  }
  const bool listed = SchemeOf(path) != "http" && SchemeOf(path) != "https";
  if (listed && HasWildcard(path)) return ResolveGlob(path, seen);
  absl::StatusOr<Kind> kind = LookInStore(path);
  if (!kind.ok()) return kind.status();
  if (*kind == Kind::kFolder) return ResolveFolder(path, seen);
  if (*kind == Kind::kFile) {
    ShardSet set;
    set.directory = parts.directory;
    set.stem = parts.name;
    set.paths = {path};
    return set;
  }
  if (parts.name.find('@') != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, AfterAtError(parts.name)));
  }
  constexpr std::string_view kError = "there is no such object or folder";
  if (listed && in_bucket) {
    absl::StatusOr<ShardSet> split =
        ResolveSplit(path, std::string(parts.directory), parts.name, kError, seen);
    // An error that the folder does not exist either would name something else.
    if (split.ok() || !absl::IsNotFound(split.status()) ||
        split.status().message().substr(0, path.size()) == path) {
      return split;
    }
  }
  return absl::NotFoundError(fmt::format("{}: {}", path, kError));
}

// Implements ResolveSpec, but does not notice if the dataset is replaced in the meantime.
absl::StatusOr<ShardSet> Resolve(const std::string& spec, Versions* seen) {
  if (spec.empty()) return absl::InvalidArgumentError("the name of the dataset is empty");
  std::string path = spec.starts_with("file:///") ? spec.substr(7) : spec;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.find('\0') != path.npos) return absl::InvalidArgumentError(kNulError);
  if (IsRemote(path)) return ResolveRemote(path, seen);
  if (absl::Status status = CheckSlashes(path); !status.ok()) return status;
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  // A glob may be longer than a file name can be.
  if (!exists && errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) {
    return ErrnoStatus(errno, path, "look up");
  }
  const PathParts parts = SplitPath(path);
  // A block device has a size and can be read at any offset, like a file; a pipe cannot.
  if (exists && !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: neither a file nor a folder; write its output to a file first", spec));
  }
  if (exists && !S_ISDIR(info.st_mode)) {
    ShardSet set;
    set.directory = parts.directory;
    set.stem = parts.name;
    set.paths = {path};
    return set;
  }
  if (exists) return ResolveFolder(path, seen);
  const std::optional<AtForm> form = ParseAtForm(parts.name);
  if (form && !HasWildcard(form->stem) && !HasWildcard(parts.directory)) {
    if (absl::Status status = CheckAtForm(spec, *form); !status.ok()) return status;
    const std::string directory(parts.directory);
    if (absl::Status status = FinishCommit(directory, std::string(form->stem)); !status.ok()) {
      return status;
    }
    seen->push_back(DatasetVersion::Of(directory, std::string(form->stem)));
    absl::StatusOr<Folder> folder = ListFolder(directory);
    if (!folder.ok()) return folder.status();
    return ResolveAt(path, directory, *folder, *form);
  }
  if (HasWildcard(path)) return ResolveGlob(path, seen);
  if (parts.name.find('@') != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", spec, AfterAtError(parts.name)));
  }
  return ResolveSplit(spec, std::string(parts.directory), parts.name, "no such file or folder",
                      seen);
}

}  // namespace

absl::Status CheckIsPath(std::string_view path) {
  const size_t end = path.find("://");
  const std::string_view scheme = path.substr(0, end == path.npos ? 0 : end);
  const bool is_scheme =
      !scheme.empty() && std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
      });
  if (!is_scheme) return CheckSlashes(path);
  const std::string_view rest = path.substr(end + 3);
  if (scheme == "file" && rest.starts_with('/')) {
    return absl::InvalidArgumentError(fmt::format("{}: write it as the plain path {}", path, rest));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {}:// is not supported here, only local paths are (for a folder named {}:, "
                  "write ./{}:/...)",
                  ShownUrl(path), scheme, scheme, scheme));
}

namespace {

// The files of several names as a set. It is one whole set if they form it in its order.
absl::StatusOr<ShardSet> Joined(ShardSet all) {
  if (absl::Status status = CheckNoneTwice(all.paths); !status.ok()) return status;
  // Check whether the paths are one whole set in order, such as a glob expanded by the shell.
  const PathParts first = SplitPath(all.paths[0]);
  const std::optional<ShardNameView> shard = ViewShardName(first.name);
  if (!shard || shard->count != all.paths.size()) return all;
  for (size_t i = 0; i < all.paths.size(); ++i) {
    const std::string name = ShardName(shard->stem, i, shard->count, shard->suffix);
    if (all.paths[i] != JoinPath(first.directory, name)) return all;
  }
  // The expanded paths may belong partly to the old dataset and partly to the new one.
  absl::Status status = FinishCommit(std::string(first.directory), std::string(shard->stem));
  if (!status.ok()) return status;
  all.stem = shard->stem;
  all.suffix = shard->suffix;
  all.sharded_name = true;
  all.version = DatasetVersion::Of(all.directory, all.stem);
  return all;
}

}  // namespace

absl::StatusOr<ShardSet> ResolveSpec(const std::string& spec) {
  absl::StatusOr<std::vector<std::string>> names = NamesInBraces(spec);
  if (!names.ok()) return names.status();
  if (!names->empty() && IsRemote(spec) && !HasWildcard(spec) && spec.find('@') == spec.npos) {
    // Do not ask the store for each object here, which would take long.
    ShardSet all;
    all.directory = SplitPath(names->front()).directory;
    all.paths = *std::move(names);
    return Joined(std::move(all));
  }
  if (!names->empty()) return ResolveSpecs(*names);
  for (int attempt = 1;; ++attempt) {
    Versions seen;
    absl::StatusOr<ShardSet> set = Resolve(spec, &seen);
    absl::Status unchanged;
    // One object has described all of it.
    if (set.ok() && set->manifest != nullptr) return set;
    if (!set.ok()) {
      // Files that seem to be missing may have been replaced while the folder was listed.
      for (const DatasetVersion& version : seen) unchanged.Update(version.CheckUnchanged());
    } else if (set->sharded_name) {
      const auto it = std::find_if(seen.begin(), seen.end(), [&](const DatasetVersion& version) {
        return version.directory() == set->directory && version.stem() == set->stem;
      });
      set->version = it != seen.end() ? *it : DatasetVersion(set->directory, set->stem);
      unchanged = set->version.CheckUnchanged();
    }
    if (unchanged.ok()) return set;
    if (attempt == kMaxListings || absl::IsCancelled(unchanged)) return unchanged;
  }
}

absl::StatusOr<ShardSet> ResolveSpecs(const std::vector<std::string>& specs) {
  if (specs.empty()) return absl::InvalidArgumentError("expected the name of at least one dataset");
  if (specs.size() == 1) return ResolveSpec(specs[0]);
  ShardSet all;
  for (const std::string& spec : specs) {
    absl::StatusOr<ShardSet> set = ResolveSpec(spec);
    if (!set.ok()) return set.status();
    if (all.paths.empty()) all.directory = set->directory;
    all.paths.insert(all.paths.end(), set->paths.begin(), set->paths.end());
  }
  return Joined(std::move(all));
}

}  // namespace shardfeed
