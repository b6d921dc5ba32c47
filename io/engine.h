// Asynchronous reads from files.

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

// A read of `length` bytes of `file`, starting at `offset`. The result carries the same `tag`.
struct ReadRequest {
  std::shared_ptr<const File> file;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t tag = 0;
  // If set, the bytes are read to `into->data() + into_offset` instead of a buffer of their own,
  // which helps with many small reads. Engines that bypass or map the page cache may ignore it.
  std::shared_ptr<Buffer> into = nullptr;
  uint64_t into_offset = 0;
  // The caller compares the bytes that it uses with checksums that they contain, so the engine need
  // not compare them with others: see ReadResult::unverified.
  bool has_checksums = false;
};

// The outcome of a request. `data` is complete unless `status` is an error, and is valid as long as
// `buffer` lives.
struct ReadResult {
  uint64_t tag = 0;
  absl::Status status;
  std::string_view data;
  std::shared_ptr<const void> buffer;
  // Some of the bytes are from a cache on disk, which has not compared them with its checksums,
  // because of ReadRequest::has_checksums. If they turn out to be damaged, the cache may be to
  // blame: File::ReadExactlyAt then reads what the file has.
  bool unverified = false;
  // The bytes are those of a mapping, which must not be written to. All others are the caller's
  // alone.
  bool mapped = false;
};

struct EngineStats {
  // "uring", "threads" or "mmap", followed by ", direct" if the page cache is bypassed.
  std::string mode;
  // Why this engine was chosen if the caller did not choose it, for example why not io_uring.
  std::string reason;
  // What is registered with the ring ("files", "files and buffers"), and what is not and why.
  std::string registered;
  // Number of completed requests.
  uint64_t requests = 0;
  // Number of bytes read, including those added by alignment.
  uint64_t bytes_read = 0;
  // Maximum number of reads that were in flight at the same time.
  uint64_t max_depth = 0;
};

// Not thread-safe, except Wake; each reading thread has its own engine. Requests complete in any
// order.
class Engine {
 public:
  // Waits for reads in flight and drops requests that have not been started.
  virtual ~Engine() = default;

  // Queues any number of requests and hands as many to the system as the depth allows.
  virtual void Submit(absl::Span<const ReadRequest> requests) = 0;
  // Appends results: at least `min_results`, or as many as are outstanding if that is less. May
  // return with fewer after Wake, and engines of stores once the work of the
  // thread is not needed any more (see WorkStop).
  //
  // Status of a result: DataLoss if the file ends before the request does; for others see
  // ErrnoStatus.
  virtual void Wait(size_t min_results, std::vector<ReadResult>* results) = 0;
  // Makes the current or the next call of Wait return soon. May be called from any thread.
  virtual void Wake() = 0;

  // Number of requests without a result yet.
  virtual size_t outstanding() const = 0;
  // Maximum number of requests in flight; the engine queues any others.
  virtual size_t depth() const = 0;
  // True if reads happen inside Wait, so that none makes progress between calls.
  virtual bool reads_in_wait() const { return false; }
  virtual EngineStats stats() const = 0;
};

struct EngineOptions {
  EngineKind kind = EngineKind::kAuto;
  // The thread that calls Wait reads, one request at a time: best for files in the page cache.
  // Applies to kAuto and kThreads.
  bool inline_reads = false;
  // Bypass the page cache (O_DIRECT) where the file system supports it. Applies to kUring and
  // kThreads.
  bool direct = false;
  // Maximum number of reads in flight.
  int depth = 32;
  // If null, the engine creates a pool of its own.
  std::shared_ptr<BufferPool> pool;
};

// Returns the error for a file that ends before a read does.
absl::Status FileTooShort(const File& file, uint64_t offset, uint64_t end);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_ENGINE_H_
