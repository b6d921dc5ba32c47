#include "io/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "base/rounding.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

#ifdef SYS_cachestat
constexpr long kCachestat = SYS_cachestat;
#else
constexpr long kCachestat = 451;  // The same on every architecture.
#endif

// These match the structs in linux/mman.h of Linux 6.5.
struct CachestatRange {
  uint64_t offset;
  uint64_t length;
};
struct Cachestat {
  uint64_t cached;
  uint64_t dirty;
  uint64_t writeback;
  uint64_t evicted;
  uint64_t recently_evicted;
};

// Returns the number that the file holds, or UINT64_MAX if it says "max" or does not exist.
uint64_t NumberIn(const char* path) {
  std::ifstream file(path);
  uint64_t number;
  return file >> number ? number : UINT64_MAX;
}

uint64_t Room(const char* limit_path, const char* used_path) {
  const uint64_t limit = NumberIn(limit_path);
  const uint64_t used = NumberIn(used_path);
  if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
  return limit > used ? limit - used : 0;
}

}  // namespace

absl::StatusOr<uint64_t> CachedBytes(const File& file, uint64_t begin, uint64_t end) {
  const uint64_t page = ::sysconf(_SC_PAGESIZE);
  begin = begin / page * page;
  end = std::min(end, file.size());
  if (begin >= end) return 0;
  const uint64_t pages = CeilDivide(end - begin, page);
  CachestatRange range = {begin, end - begin};
  Cachestat stat = {};
  if (::syscall(kCachestat, file.fd(), &range, &stat, 0) == 0) {
    return std::min(stat.cached, pages) * page;
  }
  void* mapping =
      ::mmap(nullptr, end - begin, PROT_READ, MAP_SHARED, file.fd(), static_cast<off_t>(begin));
  if (mapping == MAP_FAILED) return ErrnoStatus(errno, file.path(), "map");
  std::vector<unsigned char> resident(pages);
  const int failed = ::mincore(mapping, end - begin, resident.data());
  const int error = errno;
  ::munmap(mapping, end - begin);
  if (failed != 0) return ErrnoStatus(error, file.path(), "look up in the page cache");
  return page * std::count_if(resident.begin(), resident.end(), [](auto r) { return r & 1; });
}

void DropFromCache(const File& file) { ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED); }

uint64_t FreeMemoryBytes() {
  uint64_t free = UINT64_MAX;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string name, unit; meminfo >> name;) {
    uint64_t kilobytes;
    if (!(meminfo >> kilobytes)) break;
    std::getline(meminfo, unit);
    if (name == "MemAvailable:") {
      free = kilobytes << 10;
      break;
    }
  }
  // A control group counts cached pages as used although they could be dropped, so its room is a
  // lower bound.
  free = std::min(free, Room("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"));
  return std::min(free, Room("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                             "/sys/fs/cgroup/memory/memory.usage_in_bytes"));
}

}  // namespace shardfeed
