#include "io/mmap_engine.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

// How many requests are taken before Wait is called: more would only wait.
constexpr size_t kInlineDepth = 32;

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

class MmapEngine : public Engine {
 public:
  explicit MmapEngine(std::string reason) {
    stats_.mode = "mmap";
    stats_.reason = std::move(reason);
  }

  void Submit(absl::Span<const ReadRequest> requests) override {
    queue_.insert(queue_.end(), requests.begin(), requests.end());
  }
  void Wait(size_t min_results, std::vector<ReadResult>* results) override {
    for (; min_results > 0 && !queue_.empty(); --min_results) {
      results->push_back(Map(queue_.front()));
      queue_.pop_front();
      ++stats_.requests;
      stats_.max_depth = 1;
    }
  }
  void Wake() override {}
  size_t outstanding() const override { return queue_.size(); }
  size_t depth() const override { return kInlineDepth; }
  bool reads_in_wait() const override { return true; }
  EngineStats stats() const override { return stats_; }

 private:
  ReadResult Map(const ReadRequest& request) {
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
    const uint64_t page = ::sysconf(_SC_PAGESIZE);
    const uint64_t begin = request.offset / page * page;
    const size_t length = end - begin;
    void* mapping = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.fd(), begin);
    if (mapping == MAP_FAILED) {
      result.status = ErrnoStatus(errno, file.path(), fmt::format("map at byte {}", begin));
      return result;
    }
    result.buffer =
        std::shared_ptr<const void>(mapping, [length](void* m) { ::munmap(m, length); });
    // Reads what is not there, and fails (on Linux 5.14 and later) where touching it would kill.
    if (::madvise(mapping, length, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
      result.status = ErrnoStatus(errno, file.path(), fmt::format("read at byte {}", begin));
      result.buffer = nullptr;
      return result;
    }
    stats_.bytes_read += length;
    result.data = {static_cast<const char*>(mapping) + (request.offset - begin),
                   static_cast<size_t>(request.length)};
    return result;
  }

  std::deque<ReadRequest> queue_;
  EngineStats stats_;
};

}  // namespace

std::unique_ptr<Engine> MakeMmapEngine(std::string reason) {
  return std::make_unique<MmapEngine>(std::move(reason));
}

}  // namespace shardfeed
