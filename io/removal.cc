#include "io/removal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "io/errno_status.h"
#include "io/folder.h"
#include "io/parallel.h"
#include "io/thread.h"

namespace shardfeed {
namespace {

// How often a folder is emptied that others fill.
constexpr int kMaxAttempts = 100;

absl::Status Failed(int error, const std::string& path) {
  return ErrnoStatus(error, path, "remove");
}

// Removes `name` in the folder that is open as `at`; `path` is for errors. Descriptors are used
// instead of paths, lest a folder that becomes a link meanwhile leads elsewhere.
absl::Status RemoveAt(int at, const std::string& name, const std::string& path) {
  if (::unlinkat(at, name.c_str(), 0) == 0) return absl::OkStatus();
  int error = errno;
  if (error == ENOENT || error == ENOTDIR) return absl::OkStatus();
  const int fd = ::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return Failed(errno == ENOTDIR || errno == ELOOP ? error : errno, path);
  const auto close = [](const int* open) { ::close(*open); };
  const std::unique_ptr<const int, decltype(close)> closing(&fd, close);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const absl::StatusOr<std::vector<std::string>> names = NamesIn(fd, path);
    if (!names.ok()) return names.status();
    absl::Status first;
    for (const std::string& inner : *names)
      first.Update(RemoveAt(fd, inner, absl::StrCat(path, "/", inner)));
    if (!first.ok()) return first;
    if (::unlinkat(at, name.c_str(), AT_REMOVEDIR) == 0) return first;
    error = errno;
    if (error == ENOENT) return first;
    if (error != ENOTEMPTY && error != EEXIST) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Failed(error, path);
}

}  // namespace

int RemovalThreads(size_t count) {
  constexpr size_t kFilesPerThread = 64;
  constexpr size_t kMost = 8;
  return static_cast<int>(std::clamp<size_t>(count / kFilesPerThread, 1, kMost));
}

absl::Status RemoveTree(const std::string& path) {
  return CatchAll([&] { return RemoveAt(AT_FDCWD, path, path); });
}

absl::Status RemoveAll(const std::vector<std::string>& paths) {
  return CatchAll([&] {
    std::vector<absl::Status> removed(paths.size());
    absl::Status all = ParallelFor(paths.size(), RemovalThreads(paths.size()), {}, [&](size_t i) {
      removed[i] = RemoveTree(paths[i]);
      return absl::OkStatus();
    });
    for (const absl::Status& status : removed) {
      if (!status.ok()) return status;
    }
    return all;
  });
}

}  // namespace shardfeed
