// The folder of a cache of blocks, which all processes of a machine share without a daemon.
//
//   shardfeed-cache              how many bytes are used; what processes lock
//   DATASET/OBJECT-VERSION-N     block N of a version of an object (net/block_file.h)
//   DATASET/OBJECT-VERSION-N.tmp one that is being fetched, or was when its process was killed
//
// DATASET, OBJECT and VERSION are hashes. Locks are fcntl's, of single bytes of shardfeed-cache:
// they end with their process however it ends, and a child after fork does not have them. Nothing
// depends on them but that work is not done twice: blocks appear by rename, whole or not at all.

#ifndef SHARDFEED_NET_CACHE_FOLDER_H_
#define SHARDFEED_NET_CACHE_FOLDER_H_

#include <chrono>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace shardfeed {

// Identifies a block of a cached object.
struct BlockName {
  uint64_t dataset = 0;
  uint64_t object = 0;
  uint64_t version = 0;
  uint64_t number = 0;

  auto operator<=>(const BlockName&) const = default;
};

// A folder that is open, with the descriptor of its shardfeed-cache, which is never closed: fcntl
// would drop the locks of the whole process.
struct OpenedCacheFolder {
  std::string path;
  int fd = -1;
  bool writable = true;  // false: the file system, or the folder's permissions, allow reading alone
  // How many bytes of the file system stay free; nullopt: 5 %, at most 10 GiB.
  std::optional<uint64_t> reserve;
  // Identity of the file shardfeed-cache.
  uint64_t device = 0;
  uint64_t inode = 0;
};

// FOLDER/shardfeed-cache.
std::string CacheStatePath(const std::string& folder);

// Opens the folder of a cache, which is made if `create` and there is none. A process must open
// each once. SHARDFEED_CACHE_RESERVE of the environment is its reserve in bytes. InvalidArgument: a
// URL, a folder that has something else in it, or a reserve that is no number. NotFound: there is
// none. PermissionDenied: it belongs to another user, whose blocks are not trusted. Others: see
// ErrnoStatus.
absl::StatusOr<OpenedCacheFolder> OpenCacheFolder(const std::string& path, bool create);

// One version of an object, as `shardfeed cache ls` lists it.
struct CacheEntry {
  std::string dataset;  // "s3://bucket/folder/train"
  std::string path;     // URL of the object
  std::string version;
  uint64_t blocks = 0;
  uint64_t bytes = 0;  // size of the files
  uint64_t object_bytes = 0;
  std::time_t used = 0;  // when the dataset was last opened or added to
  bool in_use = false;   // by a process that lives
};

struct CacheListing {
  std::vector<CacheEntry> entries;
  uint64_t bytes = 0;          // size of all files
  uint64_t damaged_files = 0;  // invalid block files, which the next reader removes
};

// Thread-safe. In a child after fork, a new one is needed, with the same descriptor.
class CacheFolder {
 public:
  explicit CacheFolder(const OpenedCacheFolder& opened) : opened_(opened) {}

  const std::string& path() const { return opened_.path; }
  bool writable() const { return opened_.writable; }
  std::string PathOf(const BlockName& name) const;

  // False: another process has it. Of threads of one process only one may ask.
  bool TryLock(const BlockName& name) const;
  void Unlock(const BlockName& name) const;

  // Blocks of a dataset are kept for as long as a process uses it. `object` has this version;
  // others of it are let go first.
  void Use(uint64_t dataset, uint64_t object, uint64_t version);
  void Release(uint64_t dataset, uint64_t object, uint64_t version);

  // Makes room for a file of `bytes`, so that all files have no more than `limit` together and the
  // file system keeps its reserve, creates the block's temporary file, of that size, and returns
  // its descriptor; the block must be locked. Datasets that nobody uses are evicted for it, the
  // least recently used first. Nullopt: the limit, or an attempt of the last 30 s, leaves no room.
  // Errors: see ErrnoStatus; Unavailable: another process keeps the folder locked;
  // ResourceExhausted: the file system has no more than its reserve.
  absl::StatusOr<std::optional<int>> Reserve(const BlockName& name, uint64_t bytes, uint64_t limit);
  // The temporary file of `bytes` becomes the block, or is removed. Either closes the descriptor.
  absl::Status Keep(const BlockName& name, int fd, uint64_t bytes);
  void Discard(const BlockName& name, int fd, uint64_t bytes);
  // Removes a block that is damaged, or what else is in its place. Errors: see ErrnoStatus; it
  // stays if it is a folder that is not empty.
  absl::Status Remove(const BlockName& name);

  absl::StatusOr<CacheListing> List() const;
  // Evicts blocks, as Reserve does, until at most `limit` bytes are left, and removes what killed
  // processes have left. Returns how many bytes remain, which are more if they are in use.
  absl::StatusOr<uint64_t> Trim(uint64_t limit);
  // The same, if there are more than `limit` bytes by the count that processes share, which is
  // quick to read. Does nothing if the folder is read-only.
  absl::Status Shrink(uint64_t limit);
  // Removes all blocks, used or not. Returns how many bytes they had.
  absl::StatusOr<uint64_t> Clear();

 private:
  struct File {
    std::string path;
    std::optional<BlockName> name;  // nothing: not a file of a cache
    bool temporary = false;
    uint64_t bytes = 0;
  };
  struct Dataset {
    uint64_t dataset = 0;
    std::string path;
    std::timespec used = {};
    bool in_use = false;
    std::vector<File> files;
  };
  class SpaceLock;

  absl::StatusOr<std::vector<Dataset>> Scan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets go until `bytes` more fit. Returns how many bytes are used then.
  absl::StatusOr<uint64_t> MakeRoom(uint64_t bytes, uint64_t limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many bytes the file system has, of which the second number stays free.
  std::pair<uint64_t, uint64_t> FreeAndReserve() const;
  bool HasFree(uint64_t bytes) const;
  std::optional<uint64_t> ReadUsed() const;
  absl::Status WriteUsed(uint64_t used) const;
  void AddUsed(int64_t bytes);

  const OpenedCacheFolder opened_;
  mutable Mutex mutex_;
  std::map<uint64_t, uint64_t> uses_ ABSL_GUARDED_BY(mutex_);  // how many users each dataset has
  std::set<BlockName> reserved_ ABSL_GUARDED_BY(mutex_);       // with temporary files
  // Versions of objects in use, and how often.
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> versions_ ABSL_GUARDED_BY(mutex_);
  // After a search found no room, the earliest time of the next one.
  std::chrono::steady_clock::time_point look_again_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_CACHE_FOLDER_H_
