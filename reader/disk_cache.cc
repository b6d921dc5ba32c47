#include "reader/disk_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "net/block_cache.h"
#include "net/open.h"

namespace shardfeed {

absl::StatusOr<std::shared_ptr<const void>> ServeFromDisk(const ShardSet& set,
                                                          const ReaderOptions& options) {
  if (options.cache.empty() && options.cache_size > 0) {
    return absl::InvalidArgumentError(
        "cache_size is set without a cache: set `cache` to its folder");
  }
  if (options.cache.empty() || std::none_of(set.paths.begin(), set.paths.end(), IsRemote)) {
    return std::shared_ptr<const void>();
  }
  std::optional<uint64_t> max_bytes;
  if (options.cache_size > 0) max_bytes = options.cache_size;
  absl::StatusOr<std::shared_ptr<BlockCache>> cache = BlockCache::Open(options.cache, max_bytes);
  if (!cache.ok()) return cache.status();
  return BlockCache::Serve(*std::move(cache), set.paths);
}

}  // namespace shardfeed
