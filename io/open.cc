#include "io/open.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

// Returns OK for a regular file.
absl::Status CheckIsFile(const std::string& path, mode_t mode, const char* action) {
  if (S_ISREG(mode)) return absl::OkStatus();
  if (S_ISDIR(mode)) return ErrnoStatus(EISDIR, path, action);
  const char* kind = S_ISFIFO(mode)   ? "a FIFO"
                     : S_ISSOCK(mode) ? "a socket"
                     : S_ISCHR(mode)  ? "a character device"
                     : S_ISBLK(mode)  ? "a block device"
                                      : "a special file";
  return absl::FailedPreconditionError(
      fmt::format("{}: is {}, not a file; replace it with a file", path, kind));
}

// Does not wait for the other end of a FIFO.
int OpenWithoutWaiting(const std::string& path, int flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Returns the error for a failed open. A FIFO without a reader and a socket fail with ENXIO.
absl::Status OpenError(int error, const std::string& path, const char* action) {
  struct stat info;
  if (error == ENXIO && ::stat(path.c_str(), &info) == 0) {
    if (absl::Status status = CheckIsFile(path, info.st_mode, action); !status.ok()) return status;
  }
  return ErrnoStatus(error, path, action);
}

}  // namespace

absl::StatusOr<int> OpenToRead(const std::string& path, struct stat* info) {
  const int fd = OpenWithoutWaiting(path, O_RDONLY);
  if (fd < 0) return OpenError(errno, path, "open");
  absl::Status status;
  if (::fstat(fd, info) != 0) {
    status = ErrnoStatus(errno, path, "read the size");
  } else if (!S_ISBLK(info->st_mode)) {
    status = CheckIsFile(path, info->st_mode, "read");
  }
  // Clears O_NONBLOCK, which io_uring would take as a request not to wait for the disk. F_SETFL
  // does not change the other flags that are used here.
  if (status.ok() && ::fcntl(fd, F_SETFL, 0) != 0) status = ErrnoStatus(errno, path, "open");
  if (status.ok()) return fd;
  ::close(fd);
  return status;
}

absl::StatusOr<int> OpenToWrite(const std::string& path) {
  const int fd = OpenWithoutWaiting(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (fd < 0) return OpenError(errno, path, "create");
  struct stat info;
  absl::Status status = ::fstat(fd, &info) == 0 ? CheckIsFile(path, info.st_mode, "create")
                                                : ErrnoStatus(errno, path, "create");
  if (status.ok()) return fd;
  ::close(fd);
  return status;
}

}  // namespace shardfeed
