#include "shard/spec/folder_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "net/open.h"
#include "net/store.h"
#include "shard/commit/staging.h"
#include "shard/names/names.h"

namespace shardfeed {

namespace {

absl::StatusOr<Folder> ListRemote(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store.status();
  absl::StatusOr<ObjectListing> listing = (*store)->List(path);
  if (!listing.ok()) return listing.status();
  Folder folder;
  folder.folders = std::move(listing->folders);
  for (const ObjectInfo& object : listing->objects) {
    folder.files.emplace_back(SplitPath(object.path).name);
  }
  // A store has no folders, only names of objects that have slashes.
  if (folder.files.empty() && folder.folders.empty()) {
    return absl::NotFoundError(fmt::format("{}: no such folder", path));
  }
  return folder;
}

}  // namespace

absl::StatusOr<Folder> ListFolder(const std::string& path) {
  if (IsRemote(path)) return ListRemote(path);
  const std::string display = path.empty() ? "." : path;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(display.c_str()), ::closedir);
  if (directory == nullptr) return ErrnoStatus(errno, display, "list the folder");
  Folder folder;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, display, "list the folder");
      return folder;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    bool is_folder = entry->d_type == DT_DIR;
    bool is_file = entry->d_type == DT_REG;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
      struct stat info;
      const bool found = ::fstatat(::dirfd(directory.get()), entry->d_name, &info, 0) == 0;
      is_folder = found && S_ISDIR(info.st_mode);
      is_file = !found || S_ISREG(info.st_mode);
    }
    is_file |= !is_folder && ViewShardName(name).has_value();
    if (is_folder) folder.folders.emplace_back(name);
    if (is_file) folder.files.emplace_back(name);
  }
}

absl::StatusOr<Folder> ListCommitted(const std::string& path, Versions* seen, Folder* sidecars) {
  absl::StatusOr<Folder> hidden = ListFolder(SidecarPath(path));
  const bool absent =
      absl::IsNotFound(hidden.status()) || absl::IsFailedPrecondition(hidden.status());
  if (!hidden.ok() && !absent) return hidden.status();
  bool moved = false;
  if (!hidden.ok()) hidden = Folder();
  for (const std::vector<std::string>* names : {&hidden->files, &hidden->folders}) {
    for (const std::string& name : *names) {
      if (!name.ends_with(kCommitEnding)) continue;
      const std::string stem = name.substr(0, name.size() - kCommitEnding.size());
      if (absl::Status status = FinishCommit(path, stem); !status.ok()) return status;
      moved = true;
    }
  }
  if (moved) hidden = ListFolder(SidecarPath(path));
  if (!hidden.ok()) return hidden.status();
  for (const std::string& name : hidden->files) {
    if (!name.ends_with(kManifestEnding)) continue;
    seen->push_back(DatasetVersion::Of(path, name.substr(0, name.size() - kManifestEnding.size())));
  }
  if (sidecars != nullptr) *sidecars = *std::move(hidden);
  return ListFolder(path);
}

}  // namespace shardfeed
