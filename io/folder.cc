#include "io/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "io/errno_status.h"

namespace shardfeed {
namespace {

constexpr char kAction[] = "list the folder";

}  // namespace

absl::StatusOr<std::vector<std::string>> NamesIn(int fd, const std::string& path) {
  const int own = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return ErrnoStatus(errno, path, kAction);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(own), ::closedir);
  if (folder == nullptr) {
    const int error = errno;
    ::close(own);
    return ErrnoStatus(error, path, kAction);
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    // Thread-safe, since no other thread uses this DIR (POSIX.1-2024).
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr && errno != 0) return ErrnoStatus(errno, path, kAction);
    if (entry == nullptr) return names;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path, kAction);
  absl::StatusOr<std::vector<std::string>> names = NamesIn(fd, path);
  ::close(fd);
  return names;
}

}  // namespace shardfeed
