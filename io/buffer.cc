#include "io/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "base/mutex.h"
#include "base/rounding.h"

namespace shardfeed {
namespace {

// Buffers of this size or more are mappings of their own, so that freed memory returns to the
// system.
constexpr size_t kMapped = 128 << 10;
constexpr size_t kHugePage = 2 << 20;

char* AllocateAligned(size_t size) {
  if (size < kMapped) {
    void* data = std::aligned_alloc(Buffer::kAlignment, size);
    if (data == nullptr) throw std::bad_alloc();
    return static_cast<char*>(data);
  }
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  if (size >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);
  return static_cast<char*>(data);
}

void FreeAligned(char* data, size_t size) {
  if (size < kMapped) {
    std::free(data);
  } else {
    ::munmap(data, size);
  }
}

size_t WholePages(size_t size) {
  const size_t rounded = size == 0 ? Buffer::kAlignment : RoundUp(size, Buffer::kAlignment);
  if (rounded < size) throw std::bad_alloc();
  return rounded;
}

}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(size_t size) {
  const size_t rounded = WholePages(size);
  return std::shared_ptr<Buffer>(new Buffer(AllocateAligned(rounded), rounded));
}

void Buffer::Resize(size_t size) {
  const size_t rounded = WholePages(size);
  if (rounded == size_) return;
  if (size_ >= kMapped && rounded >= kMapped) {
    void* data = ::mremap(data_, size_, rounded, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) throw std::bad_alloc();
    if (rounded >= kHugePage) ::madvise(data, rounded, MADV_HUGEPAGE);
    data_ = static_cast<char*>(data);
  } else {
    char* data = AllocateAligned(rounded);
    std::memcpy(data, data_, std::min(size_, rounded));
    FreeAligned(data_, size_);
    data_ = data;
  }
  size_ = rounded;
}

Buffer::~Buffer() {
  if (slab_ == nullptr) FreeAligned(data_, size_);
}

namespace {

// Rounds a size up to its class: there are eight classes per power of two, all of whole pages.
size_t SizeClass(size_t size) {
  size = std::max(size, Buffer::kAlignment);
  const size_t step = std::max(std::bit_floor(size - 1) / 8, Buffer::kAlignment);
  return RoundUp(size, step);
}

}  // namespace

std::shared_ptr<BufferPool> BufferPool::Create(uint64_t max_idle_bytes, Memory memory) {
  return std::shared_ptr<BufferPool>(new BufferPool(max_idle_bytes, memory));
}

BufferPool::~BufferPool() {
  for (auto& [size, buffers] : idle_) {
    for (Buffer* buffer : buffers) delete buffer;
  }
}

std::shared_ptr<Buffer> BufferPool::Allocate(size_t size) {
  Buffer* buffer = nullptr;
  if (memory_ == Memory::kSlabs && size <= Slab::kBytes / 2) {
    buffer = CutFromSlab(size);
  } else {
    size = SizeClass(size);
    {
      MutexLock lock(mutex_);
      // A buffer up to twice as large is accepted. Otherwise, where hardly two requests have the
      // same size, each size would accumulate buffers of its own.
      const auto idle = idle_.lower_bound(size);
      if (idle != idle_.end() && idle->first / 2 <= size) {
        buffer = idle->second.back();
        idle->second.pop_back();
        idle_bytes_ -= buffer->size();
        if (idle->second.empty()) idle_.erase(idle);
      }
    }
    if (buffer == nullptr) buffer = new Buffer(AllocateAligned(size), size);
  }
  return std::shared_ptr<Buffer>(buffer,
                                 [pool = shared_from_this()](Buffer* b) { pool->Return(b); });
}

Buffer* BufferPool::CutFromSlab(size_t size) {
  static_assert(Slab::kPage == Buffer::kAlignment);
  const size_t pages = std::max<size_t>(1, (size + Slab::kPage - 1) / Slab::kPage);
  MutexLock lock(mutex_);
  // The oldest slabs are tried first, so that the newer ones become free.
  for (const std::shared_ptr<Slab>& slab : slabs_) {
    if (const std::optional<size_t> first = slab->Take(pages)) {
      return new Buffer(slab->data() + *first * Slab::kPage, pages * Slab::kPage, slab);
    }
  }
  const std::shared_ptr<Slab>& slab = slabs_.emplace_back(std::make_shared<Slab>());
  return new Buffer(slab->data() + *slab->Take(pages) * Slab::kPage, pages * Slab::kPage, slab);
}

void BufferPool::Return(Buffer* buffer) {
  // Declared before the lock, so that slabs are unmapped after it is released.
  std::vector<std::shared_ptr<Slab>> idle;
  if (Slab* const slab = buffer->slab_.get(); slab != nullptr) {
    const size_t first = (buffer->data_ - slab->data()) / Slab::kPage;
    const size_t pages = buffer->size_ / Slab::kPage;
    delete buffer;
    MutexLock lock(mutex_);
    slab->GiveBack(first, pages);
    if (slab->empty()) idle = TakeIdleSlabs();
    return;
  }
  {
    MutexLock lock(mutex_);
    if (!closed_ && idle_bytes_ + buffer->size() <= max_idle_bytes_) {
      idle_[buffer->size()].push_back(buffer);
      idle_bytes_ += buffer->size();
      return;
    }
  }
  delete buffer;
}

void BufferPool::Close() {
  std::map<size_t, std::vector<Buffer*>> buffers;
  std::vector<std::shared_ptr<Slab>> slabs;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    idle_bytes_ = 0;
    buffers = std::exchange(idle_, {});
    slabs = TakeIdleSlabs();
  }
  for (auto& [size, same] : buffers) {
    for (Buffer* buffer : same) delete buffer;
  }
}

std::vector<std::shared_ptr<Slab>> BufferPool::TakeIdleSlabs() {
  const size_t may_stay = closed_ ? 0 : std::max<size_t>(1, max_idle_bytes_ / Slab::kBytes);
  std::vector<std::shared_ptr<Slab>> idle;
  // One empty slab stays, since it may be needed again soon and the system clears its pages each
  // time.
  size_t empty =
      std::count_if(slabs_.begin(), slabs_.end(), [](const auto& slab) { return slab->empty(); });
  const size_t stay_empty = closed_ ? 0 : 1;
  // The newest slabs are freed first.
  for (size_t i = slabs_.size(); i-- > 0 && slabs_.size() > may_stay && empty > stay_empty;) {
    if (!slabs_[i]->empty()) continue;
    --empty;
    // The memory of a slab that is registered with a ring would not return to the system.
    if (!closed_ && slabs_[i].use_count() > 1) continue;
    idle.push_back(std::move(slabs_[i]));
    slabs_.erase(slabs_.begin() + static_cast<ptrdiff_t>(i));
  }
  return idle;
}

}  // namespace shardfeed
