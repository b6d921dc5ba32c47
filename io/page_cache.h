// The state of the kernel's page cache, and how much memory is available.

#ifndef SHARDFEED_IO_PAGE_CACHE_H_
#define SHARDFEED_IO_PAGE_CACHE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "io/file.h"

namespace shardfeed {

// Returns how many of the file's bytes [begin, end) are in the page cache, in whole pages; `begin`
// is rounded down to a page. Looks at every page: 1 GiB takes a millisecond or more. Uses cachestat
// (Linux 6.5) if available, otherwise mincore.
absl::StatusOr<uint64_t> CachedBytes(const File& file, uint64_t begin, uint64_t end);

// Hints to the kernel to drop those cached pages of the file that are not dirty, mapped or in use
// elsewhere.
void DropFromCache(const File& file);

// Returns the memory available without swapping, in bytes: that of the machine, or of the control
// group if that is less. UINT64_MAX: unknown.
uint64_t FreeMemoryBytes();

}  // namespace shardfeed

#endif  // SHARDFEED_IO_PAGE_CACHE_H_
