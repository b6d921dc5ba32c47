#include "io/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace shardfeed {
namespace {

// Larger buffers are mappings of their own, so that what is freed goes back to the system.
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

}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(size_t size) {
  const size_t rounded = size == 0 ? kAlignment : (size + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < size) throw std::bad_alloc();
  return std::shared_ptr<Buffer>(new Buffer(AllocateAligned(rounded), rounded));
}

Buffer::~Buffer() {
  if (size_ < kMapped) {
    std::free(data_);
  } else {
    ::munmap(data_, size_);
  }
}

namespace {

// Sizes that requests are rounded up to: eight to a power of two, whole pages.
size_t SizeClass(size_t size) {
  size = std::max(size, Buffer::kAlignment);
  const size_t step = std::max(std::bit_floor(size - 1) / 8, Buffer::kAlignment);
  return (size + step - 1) / step * step;
}

}  // namespace

std::shared_ptr<BufferPool> BufferPool::Create(uint64_t max_idle_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(max_idle_bytes));
}

BufferPool::~BufferPool() {
  for (auto& [size, buffers] : idle_) {
    for (Buffer* buffer : buffers) delete buffer;
  }
}

std::shared_ptr<Buffer> BufferPool::Allocate(size_t size) {
  size = SizeClass(size);
  Buffer* buffer = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto idle = idle_.find(size);
    if (idle != idle_.end() && !idle->second.empty()) {
      buffer = idle->second.back();
      idle->second.pop_back();
      idle_bytes_ -= size;
    }
  }
  if (buffer == nullptr) buffer = new Buffer(AllocateAligned(size), size);
  return std::shared_ptr<Buffer>(buffer,
                                 [pool = shared_from_this()](Buffer* b) { pool->Return(b); });
}

void BufferPool::Return(Buffer* buffer) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_bytes_ + buffer->size() <= max_idle_bytes_) {
      idle_[buffer->size()].push_back(buffer);
      idle_bytes_ += buffer->size();
      return;
    }
  }
  delete buffer;
}

}  // namespace shardfeed
