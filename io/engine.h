// Reads from files, many at once.

#ifndef SHARDFEED_IO_ENGINE_H_
#define SHARDFEED_IO_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "io/buffer.h"
#include "io/file.h"
#include "shardfeed/options.h"

namespace shardfeed {

// `length` bytes of `file` from `offset` on. `tag` comes back with the result.
struct ReadRequest {
  std::shared_ptr<const File> file;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t tag = 0;
  // Where the bytes should go, if not into a buffer of their own: to `into->data() + into_offset`,
  // for many small reads. Engines that read past the page cache, or map it, do as they please.
  std::shared_ptr<Buffer> into = nullptr;
  uint64_t into_offset = 0;
};

// What became of a request. `data` is whole, unless the status is an error, and lives as long as
// `buffer`.
struct ReadResult {
  uint64_t tag = 0;
  absl::Status status;
  std::string_view data;
  std::shared_ptr<const void> buffer;
};

struct EngineStats {
  std::string mode;         // "uring", "threads" or "mmap"; "uring, direct" ...
  std::string reason;       // of a choice that was not the caller's: why not io_uring
  std::string registered;   // with the ring: "files", "files and buffers"; what not, and why
  uint64_t requests = 0;    // that have ended
  uint64_t bytes_read = 0;  // with what alignment adds
  uint64_t max_depth = 0;   // reads that the system had in hand at once
};

// Used by one thread, but for Wake; each reading thread has its own. Requests end in any order.
class Engine {
 public:
  // Reads that are under way are waited for; what was not begun is dropped.
  virtual ~Engine() = default;

  // Takes any number of requests, and hands as many to the system as the depth allows.
  virtual void Submit(absl::Span<const ReadRequest> requests) = 0;
  // Appends results: at least `min_results`, or as many as are outstanding if that is less. May
  // return with fewer after Wake.
  //
  // Status of a result: DataLoss when the file ends before the request does; else see ErrnoStatus.
  virtual void Wait(size_t min_results, std::vector<ReadResult>* results) = 0;
  // Makes Wait, now or when it is next called, return soon. From any thread.
  virtual void Wake() = 0;

  // Requests without a result yet.
  virtual size_t outstanding() const = 0;
  // Requests beyond so many wait inside.
  virtual size_t depth() const = 0;
  // Wait reads by itself, so that nothing goes on meanwhile.
  virtual bool reads_in_wait() const { return false; }
  virtual EngineStats stats() const = 0;
};

struct EngineOptions {
  EngineKind kind = EngineKind::kAuto;
  // Read by the thread that calls Wait, one at a time: best for what is in the page cache. kAuto
  // and kThreads.
  bool inline_reads = false;
  // Past the page cache (O_DIRECT), where the file system can. kUring and kThreads.
  bool direct = false;
  int depth = 32;
  std::shared_ptr<BufferPool> pool;  // one of its own if null
};

// The error of a file that ends before a read does.
absl::Status FileTooShort(const File& file, uint64_t offset, uint64_t end);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_ENGINE_H_
