#include "io/thread_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/inline_engine.h"
#include "io/thread.h"

namespace shardfeed {
namespace {

constexpr int kMaxThreads = 16;

// Reads as much of the bytes [offset, end) of the file as possible into `to`, and returns the
// offset that it reached.
absl::StatusOr<uint64_t> ReadSome(const File& file, int fd, uint64_t offset, uint64_t end,
                                  char* to) {
  while (offset < end) {
    const ssize_t n = ::pread(fd, to, end - offset, offset);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, file.path(), fmt::format("read at byte {}", offset));
    offset += n;
    to += n;
    // With O_DIRECT, only the end of the file breaks the alignment.
    if (fd != file.fd() && offset % Buffer::kAlignment != 0) break;
  }
  return offset;
}

ReadResult ReadNow(const ReadRequest& request, bool direct, BufferPool& pool, uint64_t* bytes) {
  ReadResult result;
  result.tag = request.tag;
  const File& file = *request.file;
  const uint64_t end = request.offset + request.length;
  uint64_t begin = request.offset;
  std::shared_ptr<Buffer> buffer;
  // Destination of the byte at `begin`.
  char* to = nullptr;
  uint64_t read_to = begin;
  if (direct && request.length > 0 && file.direct_fd() >= 0) {
    begin = RoundDown(request.offset, Buffer::kAlignment);
    buffer = pool.Allocate(RoundUp(end, Buffer::kAlignment) - begin);
    to = buffer->data();
    absl::StatusOr<uint64_t> reached =
        ReadSome(file, file.direct_fd(), begin, RoundUp(end, Buffer::kAlignment), to);
    // A file system may refuse direct reads although open succeeded. The plain descriptor then
    // reads the bytes or reports the error.
    read_to = reached.ok() ? *reached : begin;
  } else if (request.into != nullptr) {
    buffer = request.into;
    to = buffer->data() + request.into_offset;
  } else {
    // The kernel copies fastest if source and destination have the same offset within a page.
    const uint64_t shift = request.offset % Buffer::kAlignment;
    buffer = pool.Allocate(shift + request.length);
    to = buffer->data() + shift;
  }
  if (read_to < end) {
    absl::StatusOr<uint64_t> reached =
        ReadSome(file, file.fd(), read_to, end, to + (read_to - begin));
    if (!reached.ok()) {
      result.status = reached.status();
      return result;
    }
    read_to = *reached;
  }
  *bytes += read_to - begin;
  if (read_to < end) {
    result.status = FileTooShort(file, read_to, end);
    return result;
  }
  result.data = {to + (request.offset - begin), static_cast<size_t>(request.length)};
  result.buffer = std::move(buffer);
  return result;
}

class ThreadlessEngine : public InlineEngine {
 public:
  ThreadlessEngine(const EngineOptions& options, std::string reason)
      : InlineEngine("threads", std::move(reason)), pool_(options.pool), direct_(options.direct) {}

 private:
  ReadResult Read(const ReadRequest& request, uint64_t* bytes) override {
    return ReadNow(request, direct_, *pool_, bytes);
  }

  const std::shared_ptr<BufferPool> pool_;
  const bool direct_;
};

class ThreadEngine : public Engine {
 public:
  ThreadEngine(const EngineOptions& options, std::string reason)
      : pool_(options.pool), direct_(options.direct), depth_(std::min(options.depth, kMaxThreads)) {
    stats_.mode = direct_ ? "threads, direct" : "threads";
    stats_.reason = std::move(reason);
  }

  ~ThreadEngine() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    work_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  void Submit(absl::Span<const ReadRequest> requests) override {
    {
      MutexLock lock(mutex_);
      // Threads that append results must not have to allocate.
      done_.reserve(outstanding_ + requests.size());
      queue_.insert(queue_.end(), requests.begin(), requests.end());
    }
    outstanding_ += requests.size();
    threads_.reserve(depth_);
    while (threads_.size() < std::min(depth_, outstanding_)) {
      absl::StatusOr<std::thread> thread = StartThread([this] {
        MutexLock lock(mutex_);
        while (true) {
          work_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
            return stopping_ || !queue_.empty();
          });
          if (stopping_) return;
          ReadFirst(lock);
        }
      });
      if (!thread.ok()) break;
      threads_.push_back(*std::move(thread));
    }
    if (threads_.empty()) {
      // The system could not start any thread, so this one reads.
      MutexLock lock(mutex_);
      while (!queue_.empty()) ReadFirst(lock);
      return;
    }
    work_.NotifyAll();
  }

  void Wait(size_t min_results, std::vector<ReadResult>* results) override {
    min_results = std::min(min_results, outstanding_);
    MutexLock lock(mutex_);
    done_changed_.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return done_.size() >= min_results || woken_;
    });
    woken_ = false;
    outstanding_ -= done_.size();
    for (ReadResult& result : done_) results->push_back(std::move(result));
    done_.clear();
  }

  void Wake() override {
    {
      MutexLock lock(mutex_);
      woken_ = true;
    }
    done_changed_.NotifyAll();
  }

  size_t outstanding() const override { return outstanding_; }
  size_t depth() const override { return depth_; }
  EngineStats stats() const override {
    MutexLock lock(mutex_);
    return stats_;
  }

 private:
  // Reads the first request of the queue. Releases `lock` in the meantime, which the thread safety
  // analysis cannot follow.
  void ReadFirst(MutexLock& lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const ReadRequest request = std::move(queue_.front());
    queue_.pop_front();
    stats_.max_depth = std::max(stats_.max_depth, ++reading_);
    lock.Unlock();
    uint64_t bytes = 0;
    ReadResult result;
    const absl::Status status =
        CatchAll([&] { result = ReadNow(request, direct_, *pool_, &bytes); });
    if (!status.ok()) {
      result.tag = request.tag;
      result.status = status;
    }
    lock.Lock();
    --reading_;
    ++stats_.requests;
    stats_.bytes_read += bytes;
    done_.push_back(std::move(result));
    done_changed_.NotifyOne();
  }

  const std::shared_ptr<BufferPool> pool_;
  const bool direct_;
  const size_t depth_;
  // Accessed by the caller's thread only.
  size_t outstanding_ = 0;

  mutable Mutex mutex_;
  CondVar work_;
  CondVar done_changed_;
  std::deque<ReadRequest> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadResult> done_ ABSL_GUARDED_BY(mutex_);
  uint64_t reading_ ABSL_GUARDED_BY(mutex_) = 0;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Engine> MakeThreadEngine(const EngineOptions& options, std::string reason) {
  if (options.inline_reads) return std::make_unique<ThreadlessEngine>(options, std::move(reason));
  return std::make_unique<ThreadEngine>(options, std::move(reason));
}

}  // namespace shardfeed
