// What the kernel keeps of files in memory, and how much memory there is.

#ifndef SHARDFEED_IO_PAGE_CACHE_H_
#define SHARDFEED_IO_PAGE_CACHE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "io/file.h"

namespace shardfeed {

// How many of the file's bytes [begin, end) are in the page cache, in whole pages; `begin` is a
// multiple of 4096. Looks at every page: 1 GiB takes a millisecond or more. By cachestat (Linux
// 6.5), else by mincore.
absl::StatusOr<uint64_t> CachedBytes(const File& file, uint64_t begin, uint64_t end);

// Drops what is in the cache and not dirty, mapped or in use elsewhere. A hint.
void DropFromCache(const File& file);

// Memory that could be had without swapping, in bytes: of the machine, or of the control group when
// that is less. UINT64_MAX when nothing is known.
uint64_t FreeMemoryBytes();

}  // namespace shardfeed

#endif  // SHARDFEED_IO_PAGE_CACHE_H_
