#include "io/mmap_engine.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/inline_engine.h"
#include "io/page_cache.h"

namespace shardfeed {
namespace {

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

uint64_t PageBegin(uint64_t offset) {
  static const uint64_t page = ::sysconf(_SC_PAGESIZE);
  return offset / page * page;
}

// A mapped part of a file. Consecutive reads share a mapping, because mapping and unmapping briefly
// stop all threads of the process.
struct Mapping {
  static constexpr uint64_t kBytes = 16 << 20;

  Mapping(std::shared_ptr<const File> of, char* mapped, uint64_t from, uint64_t to)
      : file(std::move(of)), data(mapped), begin(from), end(to) {}
  ~Mapping() { ::munmap(data, end - begin); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool Holds(const ReadRequest& request) const {
    return file == request.file && begin <= request.offset &&
           request.offset + request.length <= end;
  }
  char* At(uint64_t offset) const { return data + (offset - begin); }

  const std::shared_ptr<const File> file;
  char* const data;
  const uint64_t begin;
  const uint64_t end;
};

// Maps the request and what follows it, up to Mapping::kBytes and the end of the file.
absl::StatusOr<std::shared_ptr<const Mapping>> MapPart(const ReadRequest& request,
                                                       uint64_t file_size) {
  const uint64_t begin = PageBegin(request.offset);
  const uint64_t request_end = request.offset + request.length;
  const uint64_t end = std::max(request_end, std::min(file_size, begin + Mapping::kBytes));
  void* data = ::mmap(nullptr, end - begin, PROT_READ, MAP_SHARED, request.file->fd(), begin);
  if (data == MAP_FAILED) {
    return ErrnoStatus(errno, request.file->path(), fmt::format("map at byte {}", begin));
  }
  return std::make_shared<const Mapping>(request.file, static_cast<char*>(data), begin, end);
}

class MmapEngine : public InlineEngine {
 public:
  explicit MmapEngine(std::string reason) : InlineEngine("mmap", std::move(reason)) {}

 private:
  ReadResult Read(const ReadRequest& request, uint64_t* bytes) override {
    ReadResult result;
    result.tag = request.tag;
    if (request.length == 0) return result;
    const File& file = *request.file;
    const uint64_t end = request.offset + request.length;
    struct stat info;
    if (::fstat(file.fd(), &info) != 0) {
      result.status = ErrnoStatus(errno, file.path(), "read the size");
      return result;
    }
    if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) < end) {
      result.status = FileTooShort(file, info.st_size, end);
      return result;
    }
    std::weak_ptr<const Mapping>& recent = recent_[std::hash<const File*>()(&file) % kRecent];
    std::shared_ptr<const Mapping> mapping = recent.lock();
    if (mapping == nullptr || !mapping->Holds(request)) {
      absl::StatusOr<std::shared_ptr<const Mapping>> mapped = MapPart(request, info.st_size);
      if (!mapped.ok()) {
        result.status = mapped.status();
        return result;
      }
      recent = mapping = *std::move(mapped);
    }
    // Cached pages are mapped lazily, a few at a time as they are touched, which takes half the
    // time. Otherwise the pages are read now, so that (on Linux 5.14 and later) a read error is
    // reported here instead of raising SIGBUS when the page is touched.
    const uint64_t begin = PageBegin(request.offset);
    const absl::StatusOr<uint64_t> cached = CachedBytes(file, begin, end);
    if ((!cached.ok() || *cached < end - begin) &&
        ::madvise(mapping->At(begin), end - begin, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
      result.status = ErrnoStatus(errno, file.path(), fmt::format("read at byte {}", begin));
      return result;
    }
    *bytes += end - begin;
    result.data = {mapping->At(request.offset), static_cast<size_t>(request.length)};
    result.buffer = std::move(mapping);
    result.mapped = true;
    return result;
  }

  // A prime, because the addresses that are hashed are multiples of a power of two.
  static constexpr size_t kRecent = 61;

  // The latest mapping of a file, indexed by the hash of its address.
  std::array<std::weak_ptr<const Mapping>, kRecent> recent_;
};

}  // namespace

std::unique_ptr<Engine> MakeMmapEngine(std::string reason) {
  return std::make_unique<MmapEngine>(std::move(reason));
}

}  // namespace shardfeed
