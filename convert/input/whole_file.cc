#include "convert/input/whole_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/open.h"

namespace shardfeed {

absl::StatusOr<std::string_view> WholeFile::Read(const std::string& path) {
  struct stat stat;
  absl::StatusOr<int> fd = OpenToRead(path, &stat);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<std::string_view> bytes = ReadAll(*fd, stat.st_size, path);
  ::close(*fd);
  return bytes;
}

absl::StatusOr<std::string_view> WholeFile::ReadAll(int fd, uint64_t size,
                                                    const std::string& path) {
  if (size > kMaxValueBytes) {
    return absl::DataLossError(
        fmt::format("{}: the file has {} bytes, but a record holds at most 2 GiB", path, size));
  }
  // Read one more byte, so that the same call finds the end.
  Reserve(size + kPadding);
  size_t done = 0;
  while (done <= size) {
    const ssize_t n = ::read(fd, buffer_->data() + done, size + 1 - done);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path, "read");
    done += n;
    if (done == size) break;
  }
  if (done != size) {
    return absl::FailedPreconditionError(fmt::format("{}: changed while it was being read", path));
  }
  return std::string_view(buffer_->data(), size);
}

void WholeFile::Reserve(size_t size) {
  // A rare huge file should not hold its memory forever.
  constexpr size_t kKept = size_t{64} << 20;
  if (buffer_ != nullptr && size <= buffer_->size() && buffer_->size() <= kKept) return;
  buffer_.reset();
  buffer_ = Buffer::Allocate(std::max(size + size / 4, size_t{1} << 20));
}

absl::Status VisitFile(const std::string& path,
                       const std::function<void(std::string_view bytes)>& visit) {
  thread_local WholeFile file;
  absl::StatusOr<std::string_view> bytes = file.Read(path);
  if (bytes.ok()) visit(*bytes);
  return bytes.status();
}

}  // namespace shardfeed
