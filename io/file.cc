#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/open.h"

namespace shardfeed {

absl::StatusOr<std::shared_ptr<File>> File::Open(const std::string& path) {
  struct stat stat;
  absl::StatusOr<int> fd = OpenToRead(path, &stat);
  if (!fd.ok()) return fd.status();
  uint64_t size = stat.st_size;
  if (S_ISBLK(stat.st_mode)) {
    const off_t end = ::lseek(*fd, 0, SEEK_END);
    if (end > 0) size = end;
  }
  return std::shared_ptr<File>(new File(path, *fd, size));
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
  if (direct_fd_ >= 0) ::close(direct_fd_);
}

int File::direct_fd() const {
  std::call_once(direct_opened_, [this] {
    // Reopened through the descriptor, because the name may belong to another file by now.
    const std::string path = fmt::format("/proc/self/fd/{}", fd_);
    direct_fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  });
  return direct_fd_;
}

absl::StatusOr<size_t> File::ReadAt(uint64_t offset, absl::Span<char> dst) const {
  // Linux reads at most 0x7ffff000 bytes per call and truncates larger requests.
  size_t done = 0;
  while (done < dst.size()) {
    const ssize_t n = ::pread(fd_, dst.data() + done, dst.size() - done, offset + done);
    if (n > 0) {
      done += n;
    } else if (n == 0) {
      break;
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, path_, fmt::format("read at byte {}", offset + done));
    }
  }
  return done;
}

absl::Status File::ReadExactlyAt(uint64_t offset, absl::Span<char> dst) const {
  absl::StatusOr<size_t> n = ReadAt(offset, dst);
  if (!n.ok()) return n.status();
  if (*n == dst.size()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{}: file ends at byte {}, expected data up to byte {}",
                                         path_, offset + *n, offset + dst.size()));
}

void File::Advise(Access access) const {
  ::posix_fadvise(fd_, 0, 0,
                  access == Access::kSequential ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
}

absl::StatusOr<size_t> FileSource::Read(absl::Span<char> dst) {
  if (position_ >= end_) return 0;
  dst = dst.subspan(0, std::min<uint64_t>(dst.size(), end_ - position_));
  absl::StatusOr<size_t> n = file_->ReadAt(position_, dst);
  if (n.ok()) position_ += *n;
  return n;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(path);
  if (!file.ok()) return file.status();
  if ((*file)->size() > max_bytes) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: expected at most {} bytes, got {}", path, max_bytes, (*file)->size()));
  }
  std::string bytes((*file)->size(), '\0');
  absl::StatusOr<size_t> n = (*file)->ReadAt(0, absl::MakeSpan(bytes));
  if (!n.ok()) return n.status();
  bytes.resize(*n);
  return bytes;
}

}  // namespace shardfeed
