#include "convert/input/open_file_cache.h"

#include <utility>

#include "base/mutex.h"

namespace shardfeed {

absl::StatusOr<std::shared_ptr<const File>> FileCache::Get(const std::string& path) {
  {
    MutexLock lock(mutex_);
    const auto it = open_.find(path);
    if (it != open_.end()) return it->second;
  }
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(path);
  if (!file.ok()) return file.status();
  MutexLock lock(mutex_);
  // For sequential and for random access, any file is as good to close as another.
  if (open_.size() >= max_open_) open_.erase(open_.begin());
  open_.emplace(path, *file);
  return std::shared_ptr<const File>(*std::move(file));
}

}  // namespace shardfeed
