// Datasets in stores that are read through a cache on disk.

#ifndef SHARDFEED_READER_DISK_CACHE_H_
#define SHARDFEED_READER_DISK_CACHE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "shard/spec/spec.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Makes everything that this process reads from the dataset go through ReaderOptions::cache
// while the returned object lives. Null: no cache is wanted, or all shards are local. Errors: those
// of BlockCache::Open.
absl::StatusOr<std::shared_ptr<const void>> ServeFromDisk(const ShardSet& set,
                                                          const ReaderOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_DISK_CACHE_H_
