#include "shard/commit/file_replacement.h"

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

// Opens the file at `path`, or creates it if `create` is O_CREAT and not 0, and locks it; only the
// holder of the lock may write, move or remove the file. Returns -1 if someone else holds the lock.
// Errors name `wanted`, the file that is replaced.
absl::StatusOr<int> TryLock(const std::string& path, const std::string& wanted,
                            int create = O_CREAT) {
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | create | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
      const int error = errno;
      // What hinders is a file of this name, if there is one, and otherwise the folder.
      struct stat present;
      return ErrnoStatus(error, ::lstat(path.c_str(), &present) == 0 ? path : wanted,
                         create == O_CREAT ? "create" : "open");
    }
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(fd);
      if (error == EINTR) continue;
      if (error == EWOULDBLOCK) return -1;
      return ErrnoStatus(error, path, "lock");
    }
    // The previous holder of the lock may have moved or removed the file.
    struct stat locked;
    struct stat present;
    if (::fstat(fd, &locked) == 0 && ::stat(path.c_str(), &present) == 0 &&
        locked.st_dev == present.st_dev && locked.st_ino == present.st_ino) {
      return fd;
    }
    ::close(fd);
  }
}

absl::StatusOr<int> Lock(const std::string& path, const std::string& wanted, std::stop_token stop) {
  while (true) {
    absl::StatusOr<int> lock = TryLock(path, wanted);
    if (!lock.ok() || *lock >= 0) return lock;
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Returns PATH.tmp, PATH.1.tmp and so on.
std::string NameBeside(const std::string& path, int number) {
  return number == 0 ? path + ".tmp" : path + "." + std::to_string(number) + ".tmp";
}

// Removes temporary files, from `number` on, that were left behind by killed processes.
void RemoveLeftBeside(const std::string& path, int number) {
  std::error_code error;
  for (std::string left = NameBeside(path, number); fs::exists(left, error);
       left = NameBeside(path, ++number)) {
    RemoveAbandoned(left, /*dry_run=*/false).status().IgnoreError();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileReplacement>> FileReplacement::Begin(const std::string& path,
                                                                        std::stop_token stop) {
  if (absl::Status status = MakeFolder(FolderOf(path)); !status.ok()) return status;
  std::string temporary = NameBeside(path, 0);
  absl::StatusOr<int> lock = Lock(temporary, path, std::move(stop));
  if (!lock.ok()) return lock.status();
  return Open(path, std::move(temporary), *lock);
}

absl::StatusOr<std::unique_ptr<FileReplacement>> FileReplacement::BeginBeside(
    const std::string& path) {
  for (int number = 0;; ++number) {
    std::string temporary = NameBeside(path, number);
    absl::StatusOr<int> lock = TryLock(temporary, path);
    if (!lock.ok()) return lock.status();
    if (*lock < 0) continue;
    RemoveLeftBeside(path, number + 1);
    return Open(path, std::move(temporary), *lock);
  }
}

absl::StatusOr<std::unique_ptr<FileReplacement>> FileReplacement::Open(const std::string& path,
                                                                       std::string temporary,
                                                                       int lock) {
  std::unique_ptr<FileReplacement> replacement(
      new FileReplacement(path, std::move(temporary), lock));
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

std::string_view ReplacedBy(std::string_view temporary) {
  constexpr std::string_view kEnding = ".tmp";
  if (!temporary.ends_with(kEnding)) return {};
  temporary.remove_suffix(kEnding.size());
  const size_t digits = temporary.find_last_not_of("0123456789");
  if (digits != temporary.npos && digits + 1 < temporary.size() && temporary[digits] == '.') {
    temporary.remove_suffix(temporary.size() - digits);
  }
  return temporary;
}

absl::StatusOr<bool> RemoveAbandoned(const std::string& temporary, bool dry_run) {
  const absl::StatusOr<int> lock = TryLock(temporary, temporary, /*create=*/0);
  if (absl::IsNotFound(lock.status())) return false;
  if (!lock.ok()) return lock.status();
  if (*lock < 0) return false;
  absl::Status status;
  if (!dry_run && ::unlink(temporary.c_str()) != 0) {
    status = ErrnoStatus(errno, temporary, "remove");
  }
  ::close(*lock);
  if (!status.ok()) return status;
  return true;
}

}  // namespace shardfeed
