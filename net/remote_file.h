// Reads objects in stores as files.

#ifndef SHARDFEED_NET_REMOTE_FILE_H_
#define SHARDFEED_NET_REMOTE_FILE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "io/buffer.h"
#include "io/file.h"
#include "net/block_cache.h"
#include "net/guard_object.h"
#include "net/store.h"
#include "net/transfers.h"

namespace shardfeed {

// One version of an object. Reading fails with Aborted if the object was replaced. If the version
// is unknown when the object is opened, the first read determines it, and `guard`, if there is one,
// whether it is the right one.
//
// ReadAt waits for the store. It reads ahead, up to 32 MiB, for consecutive reads; engines
// (net/remote_engine.h) do not need this. With a cache (BlockCache::For), it reads the blocks that
// the cache has, and fetches into it the blocks that the cache admits.
class RemoteFile : public File {
 public:
  // Makes no request. Errors: those of Store::Of.
  static absl::StatusOr<std::shared_ptr<File>> Open(
      const ObjectInfo& info, std::shared_ptr<const GuardObject> guard = nullptr);

  ~RemoteFile() override;

  absl::StatusOr<size_t> ReadAt(uint64_t offset, absl::Span<char> dst) const override;
  void Advise(Access access) const override;

  // Starts to read this range, which must be within the object, after a delay: see StartRead.
  // Cancel may call `done`.
  std::shared_ptr<Transfer> Start(
      uint64_t offset, absl::Span<char> dst, std::function<void(absl::Status)> done,
      std::chrono::milliseconds delay = std::chrono::milliseconds(0)) const;

  // What it is in the cache; null: it is not read through one.
  const std::shared_ptr<const CachedObject>& cached() const { return cached_; }
  // Fetches a block into the cache: see BlockCache::Fetch.
  void Fetch(uint64_t block, BlockCache::Fetched done) const;

 private:
  // The version, which all pending reads share.
  struct Version {
    Mutex mutex;
    std::string value ABSL_GUARDED_BY(mutex);
    // What tells whether it is the right version; null: it is.
    std::shared_ptr<const GuardObject> guard ABSL_GUARDED_BY(mutex);
  };
  // A range that is being read ahead, or was.
  struct Block {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::shared_ptr<Buffer> data;
    std::shared_ptr<Transfer> transfer;
    uint64_t forks = 0;  // ForkCount() when it was started
    Mutex mutex;
    CondVar arrived;
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };

  class CheckedRead;

  RemoteFile(std::string path, uint64_t size) : File(std::move(path), -1, size) {}

  static void CheckVersion(const std::shared_ptr<Version>& version, const std::string& path,
                           const ReadVersion& read, std::function<void(absl::Status)> done);
  absl::StatusOr<size_t> ReadFromStore(uint64_t offset, absl::Span<char> dst) const;
  absl::Status ReadThroughCache(uint64_t offset, absl::Span<char> dst) const;
  uint64_t BlockEnd(uint64_t begin) const;
  bool Follows(uint64_t offset) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Block> StartBlock(uint64_t begin, uint64_t end) const;
  absl::Status ReadDirectly(uint64_t offset, absl::Span<char> dst) const;
  std::shared_ptr<Block> BlockAt(uint64_t offset, size_t wanted) const;

  std::shared_ptr<const Store> store_;
  std::shared_ptr<Version> version_ = std::make_shared<Version>();
  std::shared_ptr<const CachedObject> cached_;

  mutable Mutex mutex_;
  mutable std::deque<std::shared_ptr<Block>> blocks_ ABSL_GUARDED_BY(mutex_);  // by `begin`
  mutable uint64_t next_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;  // where the last read ended
  mutable size_t ahead_ ABSL_GUARDED_BY(mutex_) = 1;            // number of blocks to read ahead
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_REMOTE_FILE_H_
