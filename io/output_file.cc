#include "io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/open.h"

namespace shardfeed {
namespace {

constexpr uint64_t kCopyBytes = 1 << 20;

constexpr int kMaxAttempts = 100;

// Repeats fsync, which a signal may interrupt on network file systems.
int SyncFile(int fd) {
  int result;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  absl::StatusOr<int> fd = OpenToWrite(path);
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<OutputFile>(new OutputFile(path, *fd));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status OutputFile::Append(std::string_view bytes) {
  const uint64_t offset = size_;
  size_ += bytes.size();
  return WriteAt(offset, bytes);
}

absl::Status OutputFile::AppendFrom(const File& from, uint64_t offset, uint64_t size) {
  while (size > 0) {
    auto in = static_cast<off_t>(offset);
    auto out = static_cast<off_t>(size_);
    const ssize_t n = ::copy_file_range(from.fd(), &in, fd_, &out, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT || errno == EIO)) {
      return ErrnoStatus(errno, path_, fmt::format("write at byte {}", size_));
    }
    // The files are on different file systems, or theirs does not support this: copy below.
    if (n <= 0) break;
    offset += n;
    size -= n;
    size_ += n;
  }
  std::string buffer(std::min<uint64_t>(size, kCopyBytes), '\0');
  while (size > 0) {
    const size_t n = std::min<uint64_t>(size, buffer.size());
    absl::Status status = from.ReadExactlyAt(offset, absl::MakeSpan(buffer.data(), n));
    if (status.ok()) status = Append(std::string_view(buffer).substr(0, n));
    if (!status.ok()) return status;
    offset += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::Status OutputFile::WriteAt(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (n >= 0) {
      offset += n;
      bytes.remove_prefix(n);
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, path_, fmt::format("write at byte {}", offset));
    }
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() {
  if (SyncFile(fd_) != 0) return ErrnoStatus(errno, path_, "write to the device");
  return absl::OkStatus();
}

absl::Status OutputFile::Close() {
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 && errno != EINTR) return ErrnoStatus(errno, path_, "close");
  return absl::OkStatus();
}

absl::Status MoveFile(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, to, "move the finished file into place");
}

absl::StatusOr<int> OpenUnnamedFile() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  std::string name = (error ? "/tmp" : folder.string()) + "/shardfeed-XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, name, "create the temporary file");
  ::unlink(name.c_str());
  return fd;
}

absl::Status SyncDirectory(const std::string& directory) {
  const std::string path = directory.empty() ? "." : directory;
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path, "open the folder");
  const int result = SyncFile(fd);
  const int error = errno;
  ::close(fd);
  // Some network file systems do not support fsync of folders; their renames are durable without
  // it.
  if (result != 0 && error != EINVAL && error != EROFS) {
    return ErrnoStatus(error, path, "write the folder to the device");
  }
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, std::string_view bytes, bool sync) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(bytes);
  if (status.ok() && sync) status = (*file)->Sync();
  if (status.ok()) status = (*file)->Close();
  return status;
}

absl::Status ReplaceFile(const std::string& path, std::string_view bytes, bool sync) {
  const std::string written = path + ".tmp";
  absl::Status status = WriteFile(written, bytes, sync);
  if (status.ok()) status = MoveFile(written, path);
  if (!status.ok()) ::unlink(written.c_str());
  return status;
}

namespace {

absl::Status TryCreateFolders(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    return S_ISDIR(info.st_mode) ? absl::OkStatus()
                                 : ErrnoStatus(ENOTDIR, path, "create the folder");
  }
  const size_t slash = path.find_last_of('/');
  const std::string parent = slash == path.npos ? "" : path.substr(0, std::max<size_t>(slash, 1));
  if (parent != path) {
    if (absl::Status status = TryCreateFolders(parent); !status.ok()) return status;
  }
  if (::mkdir(path.c_str(), 0777) != 0) {
    // Another process may have created it in the meantime.
    if (errno != EEXIST) return ErrnoStatus(errno, path, "create the folder");
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path, "create the folder");
    return absl::OkStatus();
  }
  return SyncDirectory(parent);
}

}  // namespace

absl::Status CreateFolders(const std::string& path) {
  absl::Status status = TryCreateFolders(path);
  for (int attempt = 1; absl::IsNotFound(status) && attempt < kMaxAttempts; ++attempt) {
    status = TryCreateFolders(path);
  }
  return status;
}

absl::StatusOr<std::string> MakeTemporaryFolder() {
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (error) return ErrnoStatus(error.value(), "TMPDIR", "find the folder for temporary files");
  std::string folder = (temporary / "shardfeed-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return ErrnoStatus(errno, folder, "create");
  return folder;
}

}  // namespace shardfeed
