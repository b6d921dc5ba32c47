#include "net/remote_file.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "base/fork_count.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// Large enough that the latency of a request matters little; see docs/stores.md.
constexpr uint64_t kBlockBytes = 8 << 20;
constexpr size_t kMaxAhead = 4;
// A small read that follows no other brings a little more: headers are seldom alone.
constexpr uint64_t kSmallBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::shared_ptr<File>> RemoteFile::Open(const ObjectInfo& info) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(info.path);
  if (!store.ok()) return store.status();
  std::shared_ptr<RemoteFile> file(new RemoteFile(info.path, info.size));
  file->store_ = *std::move(store);
  MutexLock lock(file->version_->mutex);
  file->version_->value = info.version;
  return std::shared_ptr<File>(std::move(file));
}

// Blocks that are under way keep their memory.
RemoteFile::~RemoteFile() {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<Block>& block : blocks_) {
    if (block->forks == ForkCount()) block->transfer->Cancel();
  }
}

void RemoteFile::SetVersion(Version& version, const std::string& value) {
  MutexLock lock(version.mutex);
  if (version.value.empty()) version.value = value;
}

std::shared_ptr<Transfer> RemoteFile::Start(uint64_t offset, absl::Span<char> dst,
                                            std::function<void(absl::Status)> done) const {
  std::string version;
  {
    MutexLock lock(version_->mutex);
    version = version_->value;
  }
  return StartRead(store_, {path(), offset, dst, std::move(version), size()},
                   [version = version_, path = path(), done = std::move(done)](
                       absl::Status status, const std::string& read) {
                     if (status.ok()) {
                       SetVersion(*version, read);
                       // Two first reads may have met two versions.
                       MutexLock lock(version->mutex);
                       if (!read.empty() && read != version->value) {
                         status = absl::AbortedError(fmt::format(
                             "{}: the object was replaced while it was read; open it again", path));
                       }
                     }
                     done(std::move(status));
                   });
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
  Start(offset, dst, [&promise](absl::Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

// The block that has `offset`, which is begun where there is none; null: read what is wanted alone.
std::shared_ptr<RemoteFile::Block> RemoteFile::BlockAt(uint64_t offset, size_t wanted) const {
  MutexLock lock(mutex_);
  const uint64_t forks = ForkCount();
  // Whoever walks through a file may skip a little, or look back.
  const bool follows =
      next_ != UINT64_MAX && offset + kSmallBytes >= next_ && offset <= next_ + kBlockBytes;
  next_ = std::min(size(), offset + wanted);
  // What lies behind is not read again; what a parent began does not come to its child.
  while (!blocks_.empty() && (blocks_.front()->forks != forks || blocks_.front()->end <= offset)) {
    blocks_.pop_front();
  }
  const bool there = !blocks_.empty() && blocks_.front()->begin <= offset;
  if (!there) {
    blocks_.clear();  // another thread may wait for them
    if (!follows && wanted > kSmallBytes) return nullptr;
    const uint64_t bytes = follows ? kBlockBytes : kSmallBytes;
    ahead_ = 1;
    blocks_.push_back(StartBlock(offset, std::min(size(), offset + bytes)));
  }
  if (follows) {
    while (blocks_.size() <= ahead_ && blocks_.back()->end < size()) {
      const uint64_t begin = blocks_.back()->end;
      blocks_.push_back(StartBlock(begin, std::min(size(), begin + kBlockBytes)));
    }
  }
  return blocks_.front();
}

absl::StatusOr<size_t> RemoteFile::ReadAt(uint64_t offset, absl::Span<char> dst) const {
  if (offset >= size()) return 0;
  dst = dst.subspan(0, std::min<uint64_t>(dst.size(), size() - offset));
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
      block->arrived.Wait(
          lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(block->mutex) { return block->done; });
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
