#include "net/remote_file.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "base/fork_count.h"
#include "base/work_stop.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// Large enough that the latency of a request matters little; see docs/stores.md.
constexpr uint64_t kBlockBytes = 8 << 20;
constexpr size_t kMaxAhead = 4;
// A small read that follows no other brings a little more: headers are seldom alone.
constexpr uint64_t kSmallBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::shared_ptr<File>> RemoteFile::Open(const ObjectInfo& info,
                                                       std::shared_ptr<const GuardObject> guard) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(info.path);
  if (!store.ok()) return store.status();
  std::shared_ptr<RemoteFile> file(new RemoteFile(info.path, info.size));
  file->store_ = *std::move(store);
  if (const std::shared_ptr<BlockCache> cache = BlockCache::For(info.path)) {
    file->cached_ = cache->Object(info, *file->store_);
  }
  MutexLock lock(file->version_->mutex);
  file->version_->value = info.version;
  if (info.version.empty()) file->version_->guard = std::move(guard);
  return std::shared_ptr<File>(std::move(file));
}

// Blocks that are under way keep their memory.
RemoteFile::~RemoteFile() {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<Block>& block : blocks_) {
    if (block->forks == ForkCount()) block->transfer->Cancel();
  }
}

// Takes the version that a successful read has found, if it was unknown, and calls `done` when it
// is known whether it is the right one.
void RemoteFile::CheckVersion(const std::shared_ptr<Version>& version, const std::string& path,
                              const ReadVersion& read, std::function<void(absl::Status)> done) {
  std::shared_ptr<const GuardObject> guard;
  absl::Status status;
  {
    MutexLock lock(version->mutex);
    if (version->value.empty()) version->value = read.version;
    // Two first reads may have met two versions.
    if (!read.version.empty() && read.version != version->value) {
      status = absl::AbortedError(
          fmt::format("{}: the object was replaced while it was read; open it again", path));
    }
    guard = version->guard;
  }
  if (!status.ok() || guard == nullptr) return done(std::move(status));
  guard->Check(read.modified, [version, done = std::move(done)](absl::Status checked) {
    if (checked.ok()) {
      MutexLock lock(version->mutex);
      version->guard = nullptr;
    }
    done(std::move(checked));
  });
}

void RemoteFile::Fetch(uint64_t block, BlockCache::Fetched done) const {
  std::string version;
  {
    MutexLock lock(version_->mutex);
    version = version_->value;
  }
  cached_->cache().Fetch(
      cached_, block,
      [store = store_, path = path(), size = size(), version](
          uint64_t offset, absl::Span<char> dst, std::function<void(absl::Status)> read) {
        StartRead(store, {path, offset, dst, version, size},
                  [read = std::move(read)](absl::Status status, const ReadVersion& /*version*/) {
                    read(std::move(status));
                  });
      },
      std::move(done));
}

// The read of a range, and then the check of its version. The check uses no memory of the read, and
// others may wait for its answer: when it is cancelled, it goes on, but nothing waits for it here.
class RemoteFile::CheckedRead : public Transfer {
 public:
  explicit CheckedRead(std::function<void(absl::Status)> done) : done_(std::move(done)) {}

  // Called before anything else can be, except by the read itself.
  void SetRead(std::shared_ptr<Transfer> read) { read_ = std::move(read); }

  // The bytes are there. Returns whether they are still needed.
  bool BeginCheck() {
    MutexLock lock(mutex_);
    is_checked_ = true;
    return !cancelled_;
  }

  void Cancel() override {
    bool checked = false;
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
      checked = is_checked_;
    }
    if (checked) {
      End(absl::CancelledError("cancelled"));
    } else {
      read_->Cancel();
    }
  }

  // Only the first call counts.
  void End(absl::Status status) {
    std::function<void(absl::Status)> done;
    {
      MutexLock lock(mutex_);
      done = std::exchange(done_, nullptr);
    }
    if (done) done(std::move(status));
  }

 private:
  std::shared_ptr<Transfer> read_;
  Mutex mutex_;
  std::function<void(absl::Status)> done_ ABSL_GUARDED_BY(mutex_);  // null when it was called
  bool is_checked_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

std::shared_ptr<Transfer> RemoteFile::Start(uint64_t offset, absl::Span<char> dst,
                                            std::function<void(absl::Status)> done,
                                            std::chrono::milliseconds delay) const {
  std::string version;
  {
    MutexLock lock(version_->mutex);
    version = version_->value;
  }
  const auto checked = std::make_shared<CheckedRead>(std::move(done));
  checked->SetRead(StartRead(
      store_, {path(), offset, dst, std::move(version), size(), delay},
      [checked, version = version_, path = path()](absl::Status status, const ReadVersion& read) {
        if (!status.ok()) return checked->End(std::move(status));
        if (!checked->BeginCheck()) return checked->End(absl::CancelledError("cancelled"));
        CheckVersion(version, path, read,
                     [checked](absl::Status known) { checked->End(std::move(known)); });
      }));
  return checked;
}

std::shared_ptr<RemoteFile::Block> RemoteFile::StartBlock(uint64_t begin, uint64_t end) const {
  auto block = std::make_shared<Block>();
  block->begin = begin;
  block->end = end;
  block->forks = ForkCount();
  block->data = Buffer::Allocate(end - begin);
  block->transfer = Start(begin, {block->data->data(), end - begin}, [block](absl::Status status) {
    MutexLock lock(block->mutex);
    block->status = std::move(status);
    block->done = true;
    block->arrived.NotifyAll();
  });
  return block;
}

absl::Status RemoteFile::ReadDirectly(uint64_t offset, absl::Span<char> dst) const {
  std::promise<absl::Status> promise;
  const std::shared_ptr<Transfer> transfer =
      Start(offset, dst, [&promise](absl::Status status) { promise.set_value(std::move(status)); });
  return AwaitTransfer(promise.get_future(), *transfer);
}

// Sequential readers may skip a little or read a little again.
bool RemoteFile::Follows(uint64_t offset) const {
  return next_ != UINT64_MAX && offset + kSmallBytes >= next_ && offset <= next_ + kBlockBytes;
}

// The end of the range that is read ahead from `begin`, which is that of a block of the cache if
// there is one.
uint64_t RemoteFile::BlockEnd(uint64_t begin) const {
  const uint64_t into = cached_ != nullptr ? begin % kCacheBlockBytes : 0;
  return std::min(size(), begin - into + kBlockBytes);
}

// Returns the block at `offset`, and starts to read one if there is none. Null: only the wanted
// bytes are to be read.
std::shared_ptr<RemoteFile::Block> RemoteFile::BlockAt(uint64_t offset, size_t wanted) const {
  MutexLock lock(mutex_);
  const uint64_t forks = ForkCount();
  const bool follows = Follows(offset);
  next_ = std::min(size(), offset + wanted);
  // Drops the blocks that were passed, and after a fork those that the parent began to read.
  while (!blocks_.empty() && (blocks_.front()->forks != forks || blocks_.front()->end <= offset)) {
    blocks_.pop_front();
  }
  const bool there = !blocks_.empty() && blocks_.front()->begin <= offset;
  if (!there) {
    blocks_.clear();  // another thread may wait for them
    if (!follows && wanted > kSmallBytes) return nullptr;
    ahead_ = 1;
    blocks_.push_back(
        StartBlock(offset, follows ? BlockEnd(offset) : std::min(size(), offset + kSmallBytes)));
  }
  if (follows) {
    while (blocks_.size() <= ahead_ && blocks_.back()->end < size()) {
      const uint64_t begin = blocks_.back()->end;
      if (cached_ != nullptr && cached_->cache().Has(*cached_, begin / kCacheBlockBytes)) break;
      blocks_.push_back(StartBlock(begin, BlockEnd(begin)));
    }
  }
  return blocks_.front();
}

absl::StatusOr<size_t> RemoteFile::ReadAt(uint64_t offset, absl::Span<char> dst) const {
  if (offset >= size()) return 0;
  dst = dst.subspan(0, std::min<uint64_t>(dst.size(), size() - offset));
  if (cached_ == nullptr) return ReadFromStore(offset, dst);
  absl::Status status = ReadThroughCache(offset, dst);
  if (!status.ok()) return status;
  return dst.size();
}

// Reads from the blocks of the cache, after fetching those that are missing, and directly what the
// cache has no room for. A small read that follows no other, such as of a header, fetches no block.
absl::Status RemoteFile::ReadThroughCache(uint64_t offset, absl::Span<char> dst) const {
  BlockCache& cache = cached_->cache();
  const uint64_t end = offset + dst.size();
  bool follows = false;
  {
    MutexLock lock(mutex_);
    follows = Follows(offset);
  }
  while (!dst.empty()) {
    const uint64_t block = offset / kCacheBlockBytes;
    const uint64_t into = offset % kCacheBlockBytes;
    const absl::Span<char> part = dst.subspan(0, kCacheBlockBytes - into);
    absl::Status status = cache.Read(*cached_, block, into, part);
    const bool there = status.ok();
    const bool fetches = !there && (follows || part.size() > kSmallBytes);
    // Others may wait for the block, too, so that it is fetched even if this thread does not.
    const auto promise = std::make_shared<std::promise<std::pair<absl::Status, bool>>>();
    if (fetches) {
      Fetch(block, [promise](absl::Status fetched, bool kept) {
        promise->set_value({std::move(fetched), kept});
      });
    }
    if (follows && into == 0) {
      const uint64_t last = std::min(BlockKey::NumBlocks(size()), block + 1 + kMaxAhead);
      for (uint64_t next = there ? block + kMaxAhead : block + 1; next < last; ++next) {
        if (!cache.Has(*cached_, next)) Fetch(next, [](const absl::Status&, bool) {});
      }
    }
    if (fetches) {
      std::future<std::pair<absl::Status, bool>> result = promise->get_future();
      if (!AwaitWanted(result)) return absl::CancelledError("interrupted");
      const auto [fetched, kept] = result.get();
      if (!fetched.ok()) return fetched;
      if (kept) status = cache.Read(*cached_, block, into, part);
    }
    if (!status.ok()) {
      const absl::StatusOr<size_t> read = ReadFromStore(offset, part);
      if (!read.ok()) return read.status();
    }
    offset += part.size();
    dst.remove_prefix(part.size());
  }
  MutexLock lock(mutex_);
  next_ = end;
  return absl::OkStatus();
}

absl::StatusOr<size_t> RemoteFile::ReadFromStore(uint64_t offset, absl::Span<char> dst) const {
  size_t read = 0;
  while (read < dst.size()) {
    const uint64_t at = offset + read;
    const std::shared_ptr<Block> block = BlockAt(at, dst.size() - read);
    if (block == nullptr) {
      absl::Status status = ReadDirectly(at, dst.subspan(read));
      if (!status.ok()) return status;
      return dst.size();
    }
    {
      MutexLock lock(block->mutex);
      const auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(block->mutex) { return block->done; };
      if (!AwaitWanted(block->arrived, lock, done)) return absl::CancelledError("interrupted");
      if (!block->status.ok()) {
        // A status of its own: ThreadSanitizer does not see how Abseil counts who shares one.
        absl::Status status(block->status.code(), std::string(block->status.message()));
        lock.Unlock();
        MutexLock own(mutex_);
        blocks_.clear();
        return status;
      }
    }
    const size_t n = std::min<uint64_t>(block->end - at, dst.size() - read);
    std::memcpy(dst.data() + read, block->data->data() + (at - block->begin), n);
    read += n;
    MutexLock lock(mutex_);
    next_ = offset + read;
    if (at + n == block->end) ahead_ = std::min(kMaxAhead, ahead_ * 2);
  }
  return read;
}

void RemoteFile::Advise(Access access) const {
  MutexLock lock(mutex_);
  next_ = access == Access::kSequential && blocks_.empty() ? 0 : UINT64_MAX;
}

}  // namespace shardfeed
