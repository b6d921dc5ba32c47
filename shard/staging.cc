#include "shard/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "shard/spec.h"

namespace shardfeed {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<Staging>> Staging::Open(const std::string& directory,
                                                       const std::string& stem) {
  std::error_code error;
  if (!directory.empty()) fs::create_directories(directory, error);
  if (error) return ErrnoStatus(error.value(), directory, "create the folder");
  const std::string path = StagingPath(directory, stem);
  fs::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), path, "create the folder");
  const std::string lock = path + "/" + kLock;
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoStatus(errno, lock, "create");
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int lock_error = errno;
    ::close(fd);
    if (lock_error != EWOULDBLOCK) return ErrnoStatus(lock_error, lock, "lock");
    return absl::FailedPreconditionError(
        fmt::format("{}: another process is writing this dataset", path));
  }
  return std::unique_ptr<Staging>(new Staging(path, fd));
}

Staging::~Staging() {
  std::error_code error;
  if (!keep_) fs::remove_all(path_, error);
  ::close(lock_fd_);
  // Of a first dataset that was not finished, nothing stays; folders with anything in them do.
  if (!keep_) fs::remove(fs::path(path_).parent_path(), error);
}

}  // namespace shardfeed
