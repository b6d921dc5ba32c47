// A cache on disk of what is read from stores, which the processes of a machine share.
//
// Blocks of 8 MiB (net/block_file.h) are fetched as a whole when something of them is read. One
// process fetches a block; others that need it wait until it is there, or until that process ends.
// Blocks of datasets that are being read are not evicted, so that cyclic epochs do not evict what
// they need next: blocks without room are read from the store in each epoch, and all others never
// again (net/cache_folder.h).
//
// A failing cache never fails the reader: what it cannot keep is read from the store, and the first
// error is reported (BlockCacheStats::trouble).

#ifndef SHARDFEED_NET_BLOCK_CACHE_H_
#define SHARDFEED_NET_BLOCK_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "net/block_file.h"
#include "net/cache_folder.h"
#include "net/store.h"

namespace shardfeed {

class BlockCache;

// One version of an object. While it lives, the blocks of its dataset are kept. Thread-safe.
class CachedObject {
 public:
  ~CachedObject();
  CachedObject(const CachedObject&) = delete;
  CachedObject& operator=(const CachedObject&) = delete;

  BlockCache& cache() const { return *cache_; }
  BlockKey KeyOf(uint64_t block) const { return {text_, size_, block}; }
  BlockName NameOf(uint64_t block) const { return {dataset_, object_, version_, block}; }

 private:
  friend class BlockCache;
  CachedObject() = default;

  std::shared_ptr<BlockCache> cache_;
  std::string text_;
  uint64_t size_ = 0;
  uint64_t dataset_ = 0;
  uint64_t object_ = 0;
  uint64_t version_ = 0;
  uint64_t forks_ = 0;  // ForkCount() when it was made
};

// Statistics of all caches that this process uses.
struct BlockCacheStats {
  uint64_t hits = 0;          // reads of a block, or of a part of it, from the cache
  uint64_t hit_bytes = 0;     // bytes of these
  uint64_t misses = 0;        // blocks that were not there, counted each time they were needed
  uint64_t stored = 0;        // blocks fetched into the cache
  uint64_t stored_bytes = 0;  // bytes of these
  uint64_t waits = 0;         // blocks that another process was fetching
  uint64_t refused = 0;       // blocks that found no room within the limit
  uint64_t damaged = 0;       // blocks that were removed, because they differed from their CRC
  std::string trouble;        // the first error of a cache; empty: none
};
BlockCacheStats GetBlockCacheStats();

class BlockCache : public std::enable_shared_from_this<BlockCache> {
 public:
  // Opens the cache in a folder, which is created if it does not exist. A cache that this process
  // has already open is returned, with the new limit. `max_bytes` limits the size of all files;
  // nullopt: the size of the file system, less a reserve of 5 % (at most 10 GiB). Errors: those of
  // OpenCacheFolder, and InvalidArgument: too small for one block.
  static absl::StatusOr<std::shared_ptr<BlockCache>> Open(const std::string& folder,
                                                          std::optional<uint64_t> max_bytes);

  // From now on, objects of the datasets of these paths are read through the cache, for as long as
  // the returned object lives; without paths, all objects. Of several caches, the last one counts.
  static std::shared_ptr<const void> Serve(std::shared_ptr<BlockCache> cache,
                                           const std::vector<std::string>& paths);
  // The cache through which an object is read; null: none.
  static std::shared_ptr<BlockCache> For(std::string_view path);

  // Null if it cannot be in the cache: its version is not known, it is empty, or its URL is too
  // long.
  std::shared_ptr<const CachedObject> Object(const ObjectInfo& info, const Store& store);

  // Whether there seems to be such a block.
  bool Has(const CachedObject& object, uint64_t block) const;
  // Reads a part of a block, from `offset` in it. NotFound: the block is not there; a damaged block
  // is removed.
  absl::Status Read(const CachedObject& object, uint64_t block, uint64_t offset,
                    absl::Span<char> dst, BlockCheck check = BlockCheck::kAll);

  // Reads bytes of the object from the store, and then calls `done`, once, on any thread.
  using ReadStore = std::function<void(uint64_t offset, absl::Span<char> dst,
                                       std::function<void(absl::Status)> done)>;
  // The status is the store's. `kept`: the block is there now; if not, it has to be read from the
  // store.
  using Fetched = std::function<void(absl::Status status, bool kept)>;
  // Starts to fetch a block, unless it is being fetched already. `done` is called once, by a thread
  // of the cache, which it must not block. Memory for one block is in use until then. Returns at
  // once.
  void Fetch(std::shared_ptr<const CachedObject> object, uint64_t block, ReadStore read,
             Fetched done);

  uint64_t max_bytes() const { return max_bytes_; }

 private:
  friend class CachedObject;
  class Live;

  explicit BlockCache(OpenedCacheFolder opened);
  Live& live() const;

  const OpenedCacheFolder opened_;
  std::atomic<uint64_t> max_bytes_ = UINT64_MAX;
  // State of this process alone; that of its parent is not touched.
  mutable std::atomic<Live*> live_ = nullptr;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_BLOCK_CACHE_H_
