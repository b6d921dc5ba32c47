#include "net/open.h"

#include "net/remote_file.h"
#include "net/store.h"
#include "net/url.h"

namespace shardfeed {

bool IsRemote(std::string_view name) { return SchemeOf(name).has_value(); }

absl::StatusOr<std::shared_ptr<File>> OpenFile(const std::string& name) {
  if (!IsRemote(name)) return File::Open(name);
  absl::StatusOr<ObjectInfo> info = StatObject(name);
  if (!info.ok()) return info.status();
  return RemoteFile::Open(*info);
}

absl::StatusOr<std::string> ReadWhole(const std::string& name, uint64_t max_bytes) {
  return IsRemote(name) ? ReadObject(name, max_bytes) : ReadFile(name, max_bytes);
}

}  // namespace shardfeed
