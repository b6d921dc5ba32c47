#include <sys/stat.h>

#include <utility>

#include "fmt/format.h"
#include "net/guard_object.h"
#include "net/open.h"
#include "net/store.h"
#include "shard/names/file_identity.h"
#include "shard/names/names.h"
#include "shardfeed/spec.h"

namespace shardfeed {
namespace {

// Empty for a dataset without a manifest, or whose manifest cannot be looked up. Cancelled: the
// look was broken off, which says nothing about the manifest.
absl::StatusOr<std::vector<uint64_t>> IdentityOrNone(const std::string& manifest) {
  absl::StatusOr<std::vector<uint64_t>> identity = FileIdentity(manifest);
  if (identity.ok() || absl::IsCancelled(identity.status())) return identity;
  return std::vector<uint64_t>();
}

}  // namespace

DatasetVersion::DatasetVersion(std::string directory, std::string stem,
                               std::vector<uint64_t> manifest)
    : directory_(std::move(directory)), stem_(std::move(stem)), manifest_(std::move(manifest)) {}

DatasetVersion DatasetVersion::Of(const std::string& directory, const std::string& stem) {
  const std::string manifest = ManifestPath(directory, stem);
  if (!IsRemote(manifest)) {
    return DatasetVersion(directory, stem,
                          IdentityOrNone(manifest).value_or(std::vector<uint64_t>()));
  }
  const absl::StatusOr<ObjectInfo> info = StatObject(manifest);
  if (!info.ok()) return DatasetVersion(directory, stem);
  return OfObject(directory, stem, *info);
}

DatasetVersion DatasetVersion::OfObject(const std::string& directory, const std::string& stem,
                                        const ObjectInfo& manifest) {
  DatasetVersion version(directory, stem, ObjectIdentity(manifest));
  absl::StatusOr<std::shared_ptr<const GuardObject>> guard = GuardObject::Make(manifest);
  if (guard.ok()) version.guard_ = *std::move(guard);
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
  if (!being_replaced) {
    const absl::StatusOr<std::vector<uint64_t>> now = IdentityOrNone(manifest);
    if (!now.ok()) return now.status();
    if (*now == manifest_) return so_far;
  }
  return absl::AbortedError(
      fmt::format("{}: the dataset was replaced while it was in use; open it again", manifest));
}

}  // namespace shardfeed
