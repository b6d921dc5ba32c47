#include <sys/stat.h>

#include <utility>

#include "fmt/format.h"
#include "net/open.h"
#include "net/store.h"
#include "shard/names.h"
#include "shardfeed/spec.h"

namespace shardfeed {
namespace {

std::vector<uint64_t> IdentityOf(const std::string& path) {
  if (IsRemote(path)) {
    const absl::StatusOr<ObjectInfo> info = StatObject(path);
    if (!info.ok()) return {};
    std::vector<uint64_t> identity = {info->size};
    identity.insert(identity.end(), info->version.begin(), info->version.end());
    return identity;
  }
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size),
          static_cast<uint64_t>(info.st_mtim.tv_sec), static_cast<uint64_t>(info.st_mtim.tv_nsec)};
}

}  // namespace

DatasetVersion::DatasetVersion(std::string directory, std::string stem)
    : directory_(std::move(directory)), stem_(std::move(stem)) {}

DatasetVersion DatasetVersion::Of(const std::string& directory, const std::string& stem) {
  DatasetVersion version(directory, stem);
  version.manifest_ = IdentityOf(ManifestPath(directory, stem));
  return version;
}

absl::Status DatasetVersion::CheckUnchanged(absl::Status so_far) const {
  if (stem_.empty() || absl::IsCancelled(so_far)) return so_far;
  const std::string manifest = ManifestPath(directory_, stem_);
  // The order matters: the commit record is removed after the manifest was put into place.
  struct stat info;
  // In a store, the old manifest is removed before anything else is touched.
  const bool being_replaced =
      !IsRemote(directory_) && ::lstat(CommitPath(directory_, stem_).c_str(), &info) == 0;
  if (!being_replaced && IdentityOf(manifest) == manifest_) return so_far;
  return absl::AbortedError(
      fmt::format("{}: the dataset was replaced while it was in use; open it again", manifest));
}

}  // namespace shardfeed
