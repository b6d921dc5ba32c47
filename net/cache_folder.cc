#include "net/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "base/environment.h"
#include "base/little_endian.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/folder.h"
#include "net/block_file.h"
#include "net/url.h"

namespace shardfeed {
namespace {

constexpr std::string_view kStateName = "shardfeed-cache";
constexpr std::string_view kMagic = "SFCACHE1";
// The magic, the number of bytes used, and its complement, which validates it.
constexpr size_t kStateBytes = 24;
constexpr std::string_view kTemporary = ".tmp";

// What the file system keeps free.
constexpr uint64_t kReservedShare = 20;  // 5 %
constexpr uint64_t kMostReserved = 10ull << 30;
// Listing the folder is slow, so more is evicted than is needed now.
constexpr uint64_t kSlackShare = 32;
constexpr uint64_t kMostSlack = 1 << 30;
constexpr std::chrono::seconds kLookAgain(30);
constexpr std::chrono::seconds kSpacePatience(2);

// The bytes of shardfeed-cache that are locked, by their purpose.
constexpr uint64_t kSpaceByte = 0;
constexpr uint64_t kDatasets = uint64_t{1} << 61;
uint64_t BlockByte(const BlockName& name) {
  uint64_t mixed = name.object ^ name.version * 0x9e3779b97f4a7c15 ^ name.number << 40;
  mixed = (mixed ^ name.number) * 0xbf58476d1ce4e5b9;
  return 1 + (mixed >> 3);
}
uint64_t DatasetByte(uint64_t dataset) { return 1 + kDatasets + (dataset >> 3); }

struct flock LockOf(short type, uint64_t byte) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

// False: another process holds the lock. On a file system without locks, every attempt succeeds.
bool TryLockByte(int fd, short type, uint64_t byte) {
  struct flock lock = LockOf(type, byte);
  return ::fcntl(fd, F_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
}
void UnlockByte(int fd, uint64_t byte) {
  struct flock lock = LockOf(F_UNLCK, byte);
  ::fcntl(fd, F_SETLK, &lock);
}
// Whether another process has any lock of it.
bool IsLocked(int fd, uint64_t byte) {
  struct flock lock = LockOf(F_WRLCK, byte);
  return ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// Removes 16 hexadecimal digits from the front of `text`.
std::optional<uint64_t> TakeHash(std::string_view* text) {
  if (text->size() < 16) return std::nullopt;
  uint64_t value = 0;
  const char* const end = text->data() + 16;
  const auto [stop, error] = std::from_chars(text->data(), end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  text->remove_prefix(16);
  return value;
}

bool Take(std::string_view* text, std::string_view what) {
  if (!text->starts_with(what)) return false;
  text->remove_prefix(what.size());
  return true;
}

// Creates the folder and its missing parents.
absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path above = std::filesystem::absolute(path, error).parent_path();
  if (!error) std::filesystem::create_directories(above, error);
  if (error) return ErrnoStatus(error.value(), path, "create");
  // Other users may lack permission to read the store, so they may not read the cache.
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, path, "create");
  }
  return absl::OkStatus();
}

bool IsReadOnly(int error) { return error == EROFS || error == EACCES || error == EPERM; }

}  // namespace

std::string CacheStatePath(const std::string& folder) {
  return fmt::format("{}/{}", folder, kStateName);
}

absl::StatusOr<OpenedCacheFolder> OpenCacheFolder(const std::string& path, bool create) {
  if (path.empty() || SchemeOf(path)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': a cache is a folder of this machine", ShownUrl(path)));
  }
  if (absl::Status status = CheckSlashes(path); !status.ok()) return status;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT || !create) return ErrnoStatus(errno, path, "open the cache");
    absl::Status status = MakeFolder(path);
    if (!status.ok()) return status;
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path, "open the cache");
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{}: a cache is a folder, not a file", path));
  }
  if (::geteuid() != 0 && info.st_uid != ::geteuid()) {
    return absl::PermissionDeniedError(
        fmt::format("{}: belongs to another user, who could put anything into it; name a cache of "
                    "your own, such as a folder in it",
                    path));
  }
  const std::string state = CacheStatePath(path);
  OpenedCacheFolder opened;
  if (const std::string text = Env("SHARDFEED_CACHE_RESERVE"); !text.empty()) {
    uint64_t reserve = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), reserve);
    if (error != std::errc() || stop != text.data() + text.size()) {
      return absl::InvalidArgumentError(
          fmt::format("SHARDFEED_CACHE_RESERVE: expected a number of bytes, got '{}'", text));
    }
    opened.reserve = reserve;
  }
  opened.path = path;
  opened.fd = ::open(state.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (opened.fd < 0 && IsReadOnly(errno)) {
    opened.writable = false;
    opened.fd = ::open(state.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  }
  if (opened.fd < 0 && errno == ENOENT && create && opened.writable) {
    const absl::StatusOr<std::vector<std::string>> names = NamesIn(path);
    if (!names.ok()) return names.status();
    // Another process may be making it at this moment.
    for (const std::string& name : *names) {
      if (name == "lost+found" || name == kStateName) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}: not a cache of shardfeed, and not empty; name a new folder", path));
    }
    opened.fd = ::open(state.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  }
  if (opened.fd < 0 && errno == ENOENT) {
    return absl::NotFoundError(fmt::format("{}: not a cache of shardfeed", path));
  }
  if (opened.fd < 0) return ErrnoStatus(errno, state, "open");
  char bytes[kMagic.size()] = {};
  const ssize_t n = ::pread(opened.fd, bytes, sizeof(bytes), 0);
  absl::Status status;
  if (n < 0) {
    status = ErrnoStatus(errno, state, "read");
  } else if (n == 0 && opened.writable) {
    // A new file. Processes that write it at the same time write the same bytes.
    if (::pwrite(opened.fd, kMagic.data(), kMagic.size(), 0) != static_cast<ssize_t>(kMagic.size()))
      status = ErrnoStatus(errno, state, "write");
  } else if (std::string_view(bytes, n) != kMagic) {
    status = absl::InvalidArgumentError(
        fmt::format("{}: not a cache that this version of shardfeed knows", path));
  }
  if (status.ok() && ::fstat(opened.fd, &info) != 0) status = ErrnoStatus(errno, state, "look up");
  if (!status.ok()) {
    ::close(opened.fd);
    return status;
  }
  opened.device = info.st_dev;
  opened.inode = info.st_ino;
  return opened;
}

// Held by one thread of one process of the machine at a time. Gives up if another process, such as
// a stopped one, holds it for seconds: see status.
class ABSL_SCOPED_LOCKABLE CacheFolder::SpaceLock {
 public:
  explicit SpaceLock(const CacheFolder& folder) ABSL_EXCLUSIVE_LOCK_FUNCTION(folder.mutex_)
      : lock_(folder.mutex_), fd_(folder.opened_.fd) {
    const auto deadline = std::chrono::steady_clock::now() + kSpacePatience;
    while (!(held_ = TryLockByte(fd_, F_WRLCK, kSpaceByte))) {
      if (std::chrono::steady_clock::now() > deadline) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~SpaceLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) UnlockByte(fd_, kSpaceByte);
  }
  absl::Status status(const std::string& path) const {
    if (held_) return absl::OkStatus();
    return absl::UnavailableError(
        fmt::format("{}: another process keeps the cache locked; it may be stopped", path));
  }

 private:
  MutexLock lock_;
  const int fd_;
  bool held_ = false;
};

std::string CacheFolder::PathOf(const BlockName& name) const {
  return fmt::format("{}/{:016x}/{:016x}-{:016x}-{}", opened_.path, name.dataset, name.object,
                     name.version, name.number);
}

bool CacheFolder::TryLock(const BlockName& name) const {
  return TryLockByte(opened_.fd, F_WRLCK, BlockByte(name));
}
void CacheFolder::Unlock(const BlockName& name) const { UnlockByte(opened_.fd, BlockByte(name)); }

void CacheFolder::Use(uint64_t dataset, uint64_t object, uint64_t version) {
  MutexLock lock(mutex_);
  ++versions_[{object, version}];
  if (++uses_[dataset] > 1) return;
  // The lock is shared. Nobody takes it exclusively, so this succeeds.
  TryLockByte(opened_.fd, F_RDLCK, DatasetByte(dataset));
  if (!opened_.writable) return;
  const std::string path = fmt::format("{}/{:016x}", opened_.path, dataset);
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // none yet: its time is when it is made
}

void CacheFolder::Release(uint64_t dataset, uint64_t object, uint64_t version) {
  MutexLock lock(mutex_);
  if (const auto it = versions_.find({object, version}); it != versions_.end() && --it->second == 0)
    versions_.erase(it);
  const auto it = uses_.find(dataset);
  if (it == uses_.end() || --it->second > 0) return;
  uses_.erase(it);
  UnlockByte(opened_.fd, DatasetByte(dataset));
  look_again_ = {};
}

std::optional<uint64_t> CacheFolder::ReadUsed() const {
  char bytes[kStateBytes];
  if (::pread(opened_.fd, bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    return std::nullopt;
  }
  const auto used = LoadLittleEndian<uint64_t>(bytes + 8);
  if (LoadLittleEndian<uint64_t>(bytes + 16) != ~used) return std::nullopt;
  return used;
}

absl::Status CacheFolder::WriteUsed(uint64_t used) const {
  char bytes[kStateBytes - 8];
  StoreLittleEndian(used, bytes);
  StoreLittleEndian(~used, bytes + 8);
  if (::pwrite(opened_.fd, bytes, sizeof(bytes), 8) != static_cast<ssize_t>(sizeof(bytes))) {
    return ErrnoStatus(errno, CacheStatePath(opened_.path), "write");
  }
  return absl::OkStatus();
}

// If there is no valid count, the next call of Reserve counts again.
void CacheFolder::AddUsed(int64_t bytes) {
  SpaceLock lock(*this);
  if (!lock.status(path()).ok()) return;
  const std::optional<uint64_t> used = ReadUsed();
  if (!used) return;
  const uint64_t less = bytes < 0 ? static_cast<uint64_t>(-bytes) : 0;
  (void)WriteUsed(bytes < 0 ? *used - std::min(*used, less) : *used + bytes);
}

std::pair<uint64_t, uint64_t> CacheFolder::FreeAndReserve() const {
  struct statvfs info;
  if (::fstatvfs(opened_.fd, &info) != 0) return {UINT64_MAX, 0};  // writing will tell
  const uint64_t all = uint64_t{info.f_blocks} * info.f_frsize;
  return {uint64_t{info.f_bavail} * info.f_frsize,
          opened_.reserve.value_or(std::min(all / kReservedShare, kMostReserved))};
}

bool CacheFolder::HasFree(uint64_t bytes) const {
  const auto [free, reserve] = FreeAndReserve();
  return free >= bytes && free - bytes >= reserve;
}

absl::StatusOr<std::vector<CacheFolder::Dataset>> CacheFolder::Scan() const {
  absl::StatusOr<std::vector<std::string>> folders = NamesIn(opened_.path);
  if (!folders.ok()) return folders.status();
  std::vector<Dataset> datasets;
  for (const std::string& folder : *folders) {
    std::string_view rest = folder;
    const std::optional<uint64_t> hash = TakeHash(&rest);
    if (!hash || !rest.empty()) continue;
    Dataset dataset;
    dataset.dataset = *hash;
    dataset.path = fmt::format("{}/{}", opened_.path, folder);
    struct stat info;
    if (::lstat(dataset.path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    dataset.used = info.st_mtim;
    dataset.in_use = uses_.contains(*hash) || IsLocked(opened_.fd, DatasetByte(*hash));
    absl::StatusOr<std::vector<std::string>> names = NamesIn(dataset.path);
    if (!names.ok()) {
      if (absl::IsNotFound(names.status())) continue;  // another process removes it
      return names.status();
    }
    for (const std::string& name : *names) {
      File file;
      file.path = fmt::format("{}/{}", dataset.path, name);
      if (::lstat(file.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      file.bytes = info.st_size;
      std::string_view left = name;
      BlockName block{.dataset = *hash};
      const std::optional<uint64_t> object = TakeHash(&left);
      const bool dash = Take(&left, "-");
      const std::optional<uint64_t> version = TakeHash(&left);
      if (object && dash && version && Take(&left, "-")) {
        const auto [stop, error] =
            std::from_chars(left.data(), left.data() + left.size(), block.number);
        left.remove_prefix(stop - left.data());
        file.temporary = left == kTemporary;
        block.object = *object;
        block.version = *version;
        if (error == std::errc() && (left.empty() || file.temporary)) file.name = block;
      }
      file.temporary = file.temporary && file.name;
      dataset.files.push_back(std::move(file));
    }
    datasets.push_back(std::move(dataset));
  }
  std::sort(datasets.begin(), datasets.end(), [](const Dataset& a, const Dataset& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return datasets;
}

absl::StatusOr<uint64_t> CacheFolder::MakeRoom(uint64_t bytes, uint64_t limit) {
  absl::StatusOr<std::vector<Dataset>> datasets = Scan();
  if (!datasets.ok()) return datasets.status();
  uint64_t used = 0;
  for (const Dataset& dataset : *datasets) {
    for (const File& file : dataset.files) used += file.bytes;
  }
  const auto remove = [&](const File& file) {
    if (::unlink(file.path.c_str()) == 0 || errno == ENOENT) used -= file.bytes;
  };
  const auto abandoned = [&](const File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return file.temporary && !reserved_.contains(*file.name) &&
           !IsLocked(opened_.fd, BlockByte(*file.name));
  };
  const auto replaced = [&](const File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!file.name || file.temporary) return false;
    const auto it = versions_.lower_bound({file.name->object, 0});
    return it != versions_.end() && it->first.first == file.name->object &&
           !versions_.contains({file.name->object, file.name->version});
  };
  for (const Dataset& dataset : *datasets) {
    for (const File& file : dataset.files) {
      if (abandoned(file) || replaced(file)) remove(file);
    }
  }
  const uint64_t slack = std::max(bytes, std::min(limit / kSlackShare, kMostSlack));
  const auto fits = [&](uint64_t more) {
    return used <= limit && limit - used >= more && HasFree(more);
  };
  if (fits(bytes)) return used;
  for (const Dataset& dataset : *datasets) {
    if (dataset.in_use) continue;
    for (const File& file : dataset.files) {
      if (bytes > 0 ? fits(slack) : fits(0)) return used;
      if (!abandoned(file) && !replaced(file) && !file.temporary) remove(file);
    }
    ::rmdir(dataset.path.c_str());  // unless it has something left
  }
  return used;
}

absl::StatusOr<std::optional<int>> CacheFolder::Reserve(const BlockName& name, uint64_t bytes,
                                                        uint64_t limit) {
  const SpaceLock lock(*this);
  absl::Status status = lock.status(path());
  if (!status.ok()) return status;
  std::optional<uint64_t> used = ReadUsed();
  const auto fits = [&] { return used && *used <= limit && limit - *used >= bytes; };
  if (!used || !fits() || !HasFree(bytes)) {
    const auto now = std::chrono::steady_clock::now();
    if (now < look_again_) return std::nullopt;
    absl::StatusOr<uint64_t> left = MakeRoom(bytes, limit);
    if (!left.ok()) return left.status();
    used = *left;
    if (!fits() || !HasFree(bytes)) {
      look_again_ = now + kLookAgain;
      status = WriteUsed(*used);
      if (!status.ok()) return status;
      if (!fits()) return std::nullopt;
      const auto [free, reserve] = FreeAndReserve();
      return absl::ResourceExhaustedError(fmt::format(
          "{}: {} bytes of its file system are free, of which a cache leaves {}; free some, "
          "name a folder elsewhere, or set SHARDFEED_CACHE_RESERVE",
          path(), free, reserve));
    }
  }
  // Before the file: after a kill in between too much is counted, not too little.
  status = WriteUsed(*used + bytes);
  if (!status.ok()) return status;
  const std::string path = PathOf(name) + std::string(kTemporary);
  int fd = -1;
  int error = 0;
  for (int attempt = 0; attempt < 3 && fd < 0; ++attempt) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    error = errno;
    if (fd >= 0) break;
    if (error == ENOENT) {
      ::mkdir(fmt::format("{}/{:016x}", opened_.path, name.dataset).c_str(), 0700);
    } else if (error == EEXIST) {
      // The file is of a process that was killed: its lock belongs to this process now.
      struct stat info;
      const bool found = ::lstat(path.c_str(), &info) == 0;
      if (::unlink(path.c_str()) == 0 && found) {
        *used -= std::min<uint64_t>(*used, info.st_size);
        (void)WriteUsed(*used + bytes);
      }
    } else if (error != EINTR) {
      break;
    }
  }
  if (fd >= 0) {
    // Allocates the file in one piece, so that a full disk is an error now and not later.
    if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
      error = errno;
      const bool refused = error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG;
      if (!refused) error = ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    } else {
      error = 0;
    }
    if (error == 0) {
      reserved_.insert(name);
      return std::optional(fd);
    }
    ::close(fd);
    ::unlink(path.c_str());
  }
  (void)WriteUsed(*used);
  return ErrnoStatus(error, path, "create");
}

absl::Status CacheFolder::Keep(const BlockName& name, int fd, uint64_t bytes) {
  const std::string path = PathOf(name);
  const std::string temporary = path + std::string(kTemporary);
  absl::Status status;
  // Some file systems report errors of writing only here.
  if (::close(fd) != 0 && errno != EINTR) status = ErrnoStatus(errno, temporary, "write");
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, temporary, "rename");
  }
  {
    MutexLock lock(mutex_);
    reserved_.erase(name);
  }
  if (status.ok()) return status;
  ::unlink(temporary.c_str());
  AddUsed(-static_cast<int64_t>(bytes));
  return status;
}

void CacheFolder::Discard(const BlockName& name, int fd, uint64_t bytes) {
  ::close(fd);
  ::unlink((PathOf(name) + std::string(kTemporary)).c_str());
  {
    MutexLock lock(mutex_);
    reserved_.erase(name);
  }
  AddUsed(-static_cast<int64_t>(bytes));
}

absl::Status CacheFolder::Remove(const BlockName& name) {
  const std::string path = PathOf(name);
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) return absl::OkStatus();  // somebody else was quicker
  if (!opened_.writable) return ErrnoStatus(EROFS, path, "remove");
  const bool folder = S_ISDIR(info.st_mode);
  if ((folder ? ::rmdir(path.c_str()) : ::unlink(path.c_str())) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, path, "remove");
  }
  // Only regular files were counted.
  if (S_ISREG(info.st_mode)) AddUsed(-static_cast<int64_t>(info.st_size));
  return absl::OkStatus();
}

absl::StatusOr<CacheListing> CacheFolder::List() const {
  MutexLock lock(mutex_);
  const absl::StatusOr<std::vector<Dataset>> datasets = Scan();
  if (!datasets.ok()) return datasets.status();
  CacheListing listing;
  for (const Dataset& dataset : *datasets) {
    std::map<std::pair<std::string, std::string>, CacheEntry> entries;
    for (const File& file : dataset.files) {
      listing.bytes += file.bytes;
      if (file.temporary) continue;
      const absl::StatusOr<BlockKey> key = ReadBlockKey(file.path);
      if (absl::IsNotFound(key.status())) continue;  // let go meanwhile
      if (!key.ok()) {
        ++listing.damaged_files;
        continue;
      }
      const CachedVersion of = CachedVersion::Parse(key->text);
      CacheEntry& entry = entries[{of.path, of.version}];
      entry.dataset = CachedDatasetOf(of.path);
      entry.path = of.path;
      entry.version = of.version;
      ++entry.blocks;
      entry.bytes += file.bytes;
      entry.object_bytes = key->object_size;
      entry.used = dataset.used.tv_sec;
      entry.in_use = dataset.in_use;
    }
    for (auto& [of, entry] : entries) listing.entries.push_back(std::move(entry));
  }
  return listing;
}

absl::StatusOr<uint64_t> CacheFolder::Trim(uint64_t limit) {
  const SpaceLock lock(*this);
  absl::Status status = lock.status(path());
  if (!status.ok()) return status;
  absl::StatusOr<uint64_t> used = MakeRoom(0, limit);
  if (!used.ok()) return used;
  status = WriteUsed(*used);
  if (!status.ok()) return status;
  return used;
}

absl::Status CacheFolder::Shrink(uint64_t limit) {
  const std::optional<uint64_t> used = ReadUsed();
  if (!opened_.writable || !used || *used <= limit) return absl::OkStatus();
  return Trim(limit).status();
}

absl::StatusOr<uint64_t> CacheFolder::Clear() {
  const SpaceLock lock(*this);
  absl::Status status = lock.status(path());
  if (!status.ok()) return status;
  const absl::StatusOr<std::vector<Dataset>> datasets = Scan();
  if (!datasets.ok()) return datasets.status();
  uint64_t removed = 0;
  uint64_t left = 0;
  for (const Dataset& dataset : *datasets) {
    for (const File& file : dataset.files) {
      // One that is being fetched will appear.
      const bool living = file.temporary && (reserved_.contains(*file.name) ||
                                             IsLocked(opened_.fd, BlockByte(*file.name)));
      if (!living && ::unlink(file.path.c_str()) != 0 && errno != ENOENT) {
        return ErrnoStatus(errno, file.path, "remove");
      }
      (living ? left : removed) += file.bytes;
    }
    ::rmdir(dataset.path.c_str());
  }
  status = WriteUsed(left);
  if (!status.ok()) return status;
  return removed;
}

}  // namespace shardfeed
