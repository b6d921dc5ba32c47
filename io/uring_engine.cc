#include "io/uring_engine.h"

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <system_error>
#include <utility>

#include "base/mutex.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/slab.h"
#include "io/thread_engine.h"

namespace shardfeed {
namespace {

// Linux reads at most 0x7ffff000 bytes per call.
constexpr uint64_t kMaxRead = 1 << 30;

std::string WhyNot(int error) {
  switch (error) {
    case EPERM:
    case EACCES:
      return "io_uring is forbidden here (a container's seccomp filter, or the sysctl "
             "kernel.io_uring_disabled)";
    case ENOSYS:
      return "this kernel has no io_uring";
    case ENOMEM:
      return "io_uring cannot lock enough memory (ulimit -l)";
    default:
      return fmt::format("io_uring cannot be used: {}", std::generic_category().message(error));
  }
}

// Maximum numbers of files and slabs registered with a ring. Other files are read through their
// descriptors.
constexpr unsigned kMaxFiles = 1024;
constexpr unsigned kMaxSlabs = 64;
// Number of reads before slabs are registered: registering pins all pages of a slab, which does not
// pay off for a few reads.
constexpr uint64_t kRegisterAfter = 32;

// Returns why the kernel refused to register something.
std::string WhyNotRegistered(int error) {
  if (error == EINVAL) return "this kernel cannot";
  rlimit limit;
  if (error == ENOMEM && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    return fmt::format("no more than {} KiB may be locked (ulimit -l)", limit.rlim_cur >> 10);
  }
  return std::generic_category().message(error);
}

// Held while a ring is set up or torn down. The kernel orders these by itself; the mutex makes the
// order visible to ThreadSanitizer, which does not see the system calls that map and unmap rings.
Mutex& RingMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

// Keeps a buffer that the kernel may still write to alive until the process ends.
void KeepForEver(std::shared_ptr<Buffer> buffer) {
  static Mutex* const mutex = new Mutex;
  static auto* const kept = new std::vector<std::shared_ptr<Buffer>>;
  MutexLock lock(*mutex);
  kept->push_back(std::move(buffer));
}

class UringEngine : public Engine {
 public:
  UringEngine(const EngineOptions& options, std::string reason)
      : options_(options), pool_(options.pool), depth_(options.depth) {
    stats_.mode = options.direct ? "uring, direct" : "uring";
    stats_.reason = std::move(reason);
    operations_.resize(depth_);
    for (size_t i = 0; i < depth_; ++i) free_.push_back(depth_ - 1 - i);
  }

  absl::Status Start() {
    // One more entry is needed for the wake-up.
    const int error = [this] {
      MutexLock lock(RingMutex());
      return ::io_uring_queue_init(depth_ + 1, &ring_, 0);
    }();
    if (error < 0) return absl::UnavailableError(WhyNot(-error));
    ring_open_ = true;
    io_uring_probe* probe = ::io_uring_get_probe_ring(&ring_);
    const bool able = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) &&
                      ::io_uring_opcode_supported(probe, IORING_OP_POLL_ADD);
    ::io_uring_free_probe(probe);
    if (!able) return absl::UnavailableError("this kernel's io_uring is too old to read files");
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) return absl::UnavailableError(WhyNot(errno));
    rlimit limit;
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      max_files_ = static_cast<unsigned>(std::min<uint64_t>(kMaxFiles, limit.rlim_cur));
    }
    if (const int failed = ::io_uring_register_files_sparse(&ring_, max_files_); failed < 0) {
      StopFiles(-failed);
    }
    if (!options_.direct) {
      use_slabs_ = false;
    } else if (const int failed = ::io_uring_register_buffers_sparse(&ring_, kMaxSlabs);
               failed < 0) {
      StopSlabs(-failed);
    }
    ArmWake();
    return absl::OkStatus();
  }

  ~UringEngine() override {
    queue_.clear();
    // The kernel writes into buffers until the last read has completed.
    while (ring_open_ && in_flight_ > 0) {
      io_uring_cqe* cqe;
      const int error = ::io_uring_submit_and_wait(&ring_, 1);
      if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) {
        Abandon();
        break;
      }
      while (::io_uring_peek_cqe(&ring_, &cqe) == 0) {
        if (cqe->user_data != kWakeTag) --in_flight_;
        ::io_uring_cqe_seen(&ring_, cqe);
      }
    }
    if (ring_open_) {
      MutexLock lock(RingMutex());
      ::io_uring_queue_exit(&ring_);
    }
    if (wake_fd_ >= 0) ::close(wake_fd_);
  }

  void Submit(absl::Span<const ReadRequest> requests) override {
    if (substitute_ != nullptr) return substitute_->Submit(requests);
    queue_.insert(queue_.end(), requests.begin(), requests.end());
    Pump();
    SubmitToKernel();
  }

  void Wait(size_t min_results, std::vector<ReadResult>* results) override {
    if (substitute_ != nullptr) return substitute_->Wait(min_results, results);
    size_t missing = std::min(min_results, outstanding());
    while (true) {
      const size_t before = results->size();
      Reap(results);
      const size_t n = results->size() - before;
      missing -= std::min(missing, n);
      Pump();
      if (!SubmitToKernel()) {
        if (missing > 0) substitute_->Wait(missing, results);
        return;
      }
      if (missing == 0 || std::exchange(woken_, false)) return;
      const int error = ::io_uring_submit_and_wait(&ring_, 1);
      if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY) {
        Break(-error);
        substitute_->Wait(missing, results);
        return;
      }
    }
  }

  void Wake() override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof(one));
    // A substitute engine is not woken, because only the caller's thread may access substitute_.
  }

  size_t outstanding() const override {
    return substitute_ != nullptr ? substitute_->outstanding() : queue_.size() + in_flight_;
  }
  size_t depth() const override { return depth_; }
  EngineStats stats() const override {
    EngineStats stats = stats_;
    if (!files_.empty()) stats.registered = slabs_.empty() ? "files" : "files and buffers";
    if (files_.empty() && !slabs_.empty()) stats.registered = "buffers";
    for (const std::string* why : {&why_no_files_, &why_no_slabs_}) {
      if (why->empty()) continue;
      if (!stats.registered.empty()) stats.registered += "; ";
      stats.registered += *why;
    }
    if (substitute_ != nullptr) {
      const EngineStats more = substitute_->stats();
      stats.mode = more.mode;
      stats.requests += more.requests;
      stats.bytes_read += more.bytes_read;
      stats.max_depth = std::max(stats.max_depth, more.max_depth);
    }
    return stats;
  }

 private:
  static constexpr uint64_t kWakeTag = UINT64_MAX;

  // A request that the kernel is working on.
  struct Operation {
    ReadRequest request;
    std::shared_ptr<Buffer> buffer;
    // Destination of the bytes within `buffer`.
    char* to = nullptr;
    // The file range [begin, end) is requested, and [begin, next) has been read.
    uint64_t begin = 0;
    uint64_t next = 0;
    uint64_t end = 0;
    bool direct = false;
    // Indices into files_ and slabs_; -1 if not registered.
    int file = -1;
    int slab = -1;
  };

  // A registered descriptor.
  struct RegisteredFile {
    std::weak_ptr<const File> file;
    const File* key;
    bool direct;
    // Number of operations that use the descriptor.
    size_t uses = 0;
  };

  void StopFiles(int error) {
    use_files_ = false;
    why_no_files_ =
        fmt::format("not {}files: {}", files_.empty() ? "" : "all ", WhyNotRegistered(error));
  }
  void StopSlabs(int error) {
    use_slabs_ = false;
    why_no_slabs_ =
        fmt::format("not {}buffers: {}", slabs_.empty() ? "" : "all ", WhyNotRegistered(error));
  }

  // Returns the file's index in files_, registering the file if necessary; -1 if it cannot be
  // registered.
  int FindFile(const std::shared_ptr<const File>& file, bool direct) {
    const auto found = file_numbers_.find({file.get(), direct});
    size_t i = files_.size();
    if (found != file_numbers_.end()) {
      i = found->second;
      const std::weak_ptr<const File>& known = files_[i].file;
      if (!known.owner_before(file) && !file.owner_before(known)) return static_cast<int>(i);
      // The entry belongs to another file, now closed, that had the same address.
    } else if (i == max_files_ && use_files_) {
      // Replace a file that has been closed. Each call examines one candidate.
      i = next_file_++ % max_files_;
      if (!files_[i].file.expired()) return -1;
    }
    if (!use_files_ || (i < files_.size() && files_[i].uses > 0)) return -1;
    const int fd = direct ? file->direct_fd() : file->fd();
    const int updated = ::io_uring_register_files_update(&ring_, i, &fd, 1);
    if (updated < 0) {
      StopFiles(-updated);
      return -1;
    }
    if (i == files_.size()) {
      files_.emplace_back();
    } else {
      file_numbers_.erase({files_[i].key, files_[i].direct});
    }
    files_[i] = {file, file.get(), direct};
    file_numbers_[{file.get(), direct}] = i;
    return static_cast<int>(i);
  }

  int FindSlab(const std::shared_ptr<Slab>& slab) {
    if (slab == nullptr) return -1;
    for (size_t i = 0; i < slabs_.size(); ++i) {
      if (slabs_[i] == slab) return static_cast<int>(i);
    }
    if (!use_slabs_ || slabs_.size() == kMaxSlabs || stats_.requests < kRegisterAfter) return -1;
    const iovec memory = {slab->data(), slab->size()};
    const int updated =
        ::io_uring_register_buffers_update_tag(&ring_, slabs_.size(), &memory, nullptr, 1);
    if (updated < 0) {
      StopSlabs(-updated);
      return -1;
    }
    slabs_.push_back(slab);
    return static_cast<int>(slabs_.size() - 1);
  }

  // Turns queued requests into operations, as far as the depth goes.
  void Pump() {
    while (!queue_.empty() && !free_.empty()) {
      const size_t slot = free_.back();
      free_.pop_back();
      Operation& operation = operations_[slot];
      operation.request = std::move(queue_.front());
      queue_.pop_front();
      const ReadRequest& request = operation.request;
      const uint64_t end = request.offset + request.length;
      operation.direct = options_.direct && request.file->direct_fd() >= 0;
      operation.begin =
          operation.direct ? RoundDown(request.offset, Buffer::kAlignment) : request.offset;
      operation.end = operation.direct ? RoundUp(end, Buffer::kAlignment) : end;
      operation.next = operation.begin;
      if (request.into != nullptr && !operation.direct) {
        operation.buffer = request.into;
        operation.to = operation.buffer->data() + request.into_offset;
      } else {
        // The kernel copies fastest if source and destination have the same offset within a page.
        // For direct reads, `begin` is the start of a page.
        const uint64_t shift = operation.begin % Buffer::kAlignment;
        operation.buffer = pool_->Allocate(shift + operation.end - operation.begin);
        operation.to = operation.buffer->data() + shift;
      }
      operation.file = FindFile(request.file, operation.direct);
      if (operation.file >= 0) ++files_[operation.file].uses;
      if (operation.direct) operation.slab = FindSlab(operation.buffer->slab());
      ++in_flight_;
      stats_.max_depth = std::max<uint64_t>(stats_.max_depth, in_flight_);
      Prepare(slot);
    }
  }

  void Prepare(size_t slot) {
    Operation& operation = operations_[slot];
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      ::io_uring_submit(&ring_);
      sqe = ::io_uring_get_sqe(&ring_);
    }
    const File& file = *operation.request.file;
    const uint64_t bytes = std::min(operation.end - operation.next, kMaxRead);
    int fd = operation.direct ? file.direct_fd() : file.fd();
    // An operation that fell back to cached reads uses another descriptor than the registered one.
    const bool fixed = operation.file >= 0 && files_[operation.file].direct == operation.direct;
    if (fixed) fd = operation.file;
    char* const to = operation.to + (operation.next - operation.begin);
    if (operation.slab >= 0) {
      ::io_uring_prep_read_fixed(sqe, fd, to, static_cast<unsigned>(bytes), operation.next,
                                 operation.slab);
    } else {
      ::io_uring_prep_read(sqe, fd, to, static_cast<unsigned>(bytes), operation.next);
    }
    if (fixed) ::io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    ::io_uring_sqe_set_data64(sqe, slot);
  }

  void ArmWake() {
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      ::io_uring_submit(&ring_);
      sqe = ::io_uring_get_sqe(&ring_);
    }
    ::io_uring_prep_poll_add(sqe, wake_fd_, POLLIN);
    ::io_uring_sqe_set_data64(sqe, kWakeTag);
  }

  // Returns false if the ring has failed and has been replaced.
  bool SubmitToKernel() {
    while (::io_uring_sq_ready(&ring_) > 0) {
      const int n = ::io_uring_submit(&ring_);
      if (n >= 0 || n == -EINTR) continue;
      // The kernel is short of resources; Wait will try again.
      if (n == -EAGAIN || n == -EBUSY) return true;
      Break(-n);
      return false;
    }
    return true;
  }

  // Collects completed operations.
  void Reap(std::vector<ReadResult>* results) {
    io_uring_cqe* cqe;
    while (::io_uring_peek_cqe(&ring_, &cqe) == 0) {
      const uint64_t slot = cqe->user_data;
      const int n = cqe->res;
      ::io_uring_cqe_seen(&ring_, cqe);
      if (slot == kWakeTag) {
        uint64_t count;
        [[maybe_unused]] const ssize_t ignored = ::read(wake_fd_, &count, sizeof(count));
        woken_ = true;
        ArmWake();
        continue;
      }
      Operation& operation = operations_[slot];
      const ReadRequest& request = operation.request;
      const uint64_t end = request.offset + request.length;
      absl::Status status = absl::OkStatus();
      if (n > 0) {
        operation.next += n;
        stats_.bytes_read += n;
      } else if (n == 0 && operation.next < end) {
        status = FileTooShort(*request.file, operation.next, end);
      } else if (n == -EINVAL && operation.direct) {
        // A file system may refuse direct reads although open succeeded.
        operation.direct = false;
        operation.end = end;
      } else if (n < 0 && n != -EINTR && n != -EAGAIN && n != -ECANCELED) {
        status =
            ErrnoStatus(-n, request.file->path(), fmt::format("read at byte {}", operation.next));
      }
      if (status.ok() && operation.next < end) {
        // The read was short or interrupted. A direct read of the rest must start at an aligned
        // offset.
        if (operation.direct && operation.next % Buffer::kAlignment != 0) {
          operation.direct = false;
          operation.end = end;
        }
        Prepare(slot);
        continue;
      }
      ReadResult result;
      result.tag = request.tag;
      result.status = std::move(status);
      if (result.status.ok()) {
        result.data = {operation.to + (request.offset - operation.begin),
                       static_cast<size_t>(request.length)};
        result.buffer = std::move(operation.buffer);
      }
      results->push_back(std::move(result));
      if (operation.file >= 0) --files_[operation.file].uses;
      operation = Operation();
      free_.push_back(slot);
      --in_flight_;
      ++stats_.requests;
    }
  }

  // Called when the ring has become unusable: resubmits all outstanding requests to pread.
  void Break(int error) {
    stats_.reason = WhyNot(error) + "; continuing with pread";
    substitute_ = MakeThreadEngine(options_, "");
    std::vector<ReadRequest> again;
    std::vector<bool> idle(depth_);
    for (size_t slot : free_) idle[slot] = true;
    for (size_t slot = 0; slot < depth_; ++slot) {
      if (!idle[slot]) again.push_back(operations_[slot].request);
    }
    // Read into other memory, because the kernel may still write to the original.
    for (ReadRequest& request : again) request.into = nullptr;
    again.insert(again.end(), queue_.begin(), queue_.end());
    queue_.clear();
    Abandon();
    substitute_->Submit(again);
  }

  // Abandons the ring, and keeps alive the buffers that the kernel may still write to.
  void Abandon() {
    for (Operation& operation : operations_) {
      if (operation.buffer != nullptr) KeepForEver(std::move(operation.buffer));
    }
    in_flight_ = 0;
    ring_open_ = false;
  }

  const EngineOptions options_;
  const std::shared_ptr<BufferPool> pool_;
  const size_t depth_;
  io_uring ring_ = {};
  bool ring_open_ = false;
  int wake_fd_ = -1;
  bool woken_ = false;
  std::deque<ReadRequest> queue_;
  std::vector<Operation> operations_;
  std::vector<size_t> free_;
  size_t in_flight_ = 0;
  // Registered files and slabs, by their index in the ring.
  unsigned max_files_ = kMaxFiles;
  bool use_files_ = true;
  std::vector<RegisteredFile> files_;
  std::map<std::pair<const File*, bool>, size_t> file_numbers_;
  // Index of the next file to examine when room is needed.
  size_t next_file_ = 0;
  std::string why_no_files_;
  bool use_slabs_ = true;
  std::vector<std::shared_ptr<Slab>> slabs_;
  std::string why_no_slabs_;
  std::unique_ptr<Engine> substitute_;
  EngineStats stats_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> MakeUringEngine(const EngineOptions& options,
                                                        std::string reason) {
  auto engine = std::make_unique<UringEngine>(options, std::move(reason));
  absl::Status status = engine->Start();
  if (!status.ok()) return status;
  return engine;
}

}  // namespace shardfeed
