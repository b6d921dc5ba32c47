#include "shard/file_replacement.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "io/errno_status.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return absl::OkStatus();
  const std::string parent = FolderOf(folder);
  if (parent != folder) {
    if (absl::Status status = MakeFolder(parent); !status.ok()) return status;
  }
  fs::create_directory(folder, error);
  if (error) return ErrnoStatus(error.value(), folder, "create the folder");
  return SyncDirectory(parent);
}

// Opens the file at `path` and locks it: only its holder may write to it, move it or remove it.
absl::StatusOr<int> Lock(const std::string& path, std::stop_token stop) {
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return ErrnoStatus(errno, path, "create");
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(fd);
      if (error != EWOULDBLOCK && error != EINTR) return ErrnoStatus(error, path, "lock");
      if (stop.stop_requested()) return absl::CancelledError("interrupted");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    // Whoever held the lock before may have moved or removed the file.
    struct stat locked;
    struct stat present;
    if (::fstat(fd, &locked) == 0 && ::stat(path.c_str(), &present) == 0 &&
        locked.st_dev == present.st_dev && locked.st_ino == present.st_ino) {
      return fd;
    }
    ::close(fd);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileReplacement>> FileReplacement::Begin(const std::string& path,
                                                                        std::stop_token stop) {
  if (absl::Status status = MakeFolder(FolderOf(path)); !status.ok()) return status;
  std::string temporary = path + ".tmp";
  absl::StatusOr<int> lock = Lock(temporary, std::move(stop));
  if (!lock.ok()) return lock.status();
  std::unique_ptr<FileReplacement> replacement(
      new FileReplacement(path, std::move(temporary), *lock));
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(replacement->temporary_);
  if (!file.ok()) return file.status();
  replacement->file_ = *std::move(file);
  return replacement;
}

FileReplacement::~FileReplacement() {
  if (!moved_) ::unlink(temporary_.c_str());
  ::close(lock_);
}

absl::Status FileReplacement::Commit() {
  absl::Status status = file_->Sync();
  if (status.ok()) status = file_->Close();
  if (status.ok()) status = MoveFile(temporary_, path_);
  if (!status.ok()) return status;
  moved_ = true;
  return SyncDirectory(FolderOf(path_));
}

}  // namespace shardfeed
