#include "shard/names/file_identity.h"

#include <sys/stat.h>

#include <cerrno>

#include "io/errno_status.h"
#include "net/open.h"
#include "net/store.h"

namespace shardfeed {

std::vector<uint64_t> ObjectIdentity(const ObjectInfo& info) {
  std::vector<uint64_t> identity = {info.size};
  identity.insert(identity.end(), info.version.begin(), info.version.end());
  return identity;
}

absl::StatusOr<std::vector<uint64_t>> FileIdentity(const std::string& path) {
  if (IsRemote(path)) {
    const absl::StatusOr<ObjectInfo> info = StatObject(path);
    if (!info.ok()) return info.status();
    return ObjectIdentity(*info);
  }
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path, "look up");
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError(path + ": not a regular file");
  return std::vector<uint64_t>{info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size),
                               static_cast<uint64_t>(info.st_mtim.tv_sec),
                               static_cast<uint64_t>(info.st_mtim.tv_nsec)};
}

}  // namespace shardfeed
