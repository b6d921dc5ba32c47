// Memory that bytes from storage are read into and that views of them keep alive.

#ifndef SHARDFEED_IO_BUFFER_H_
#define SHARDFEED_IO_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "io/slab.h"

namespace shardfeed {

// Uninitialised memory, aligned to 4096 bytes (what O_DIRECT asks for at most).
//
// Whoever holds the shared_ptr may read the bytes; the one who fills the buffer must be its only
// holder while it writes.
class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;

  // `size` is rounded up to the alignment. Throws std::bad_alloc, as operator new does: whoever
  // takes a size from a file checks it before asking.
  static std::shared_ptr<Buffer> Allocate(size_t size);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  // Makes it larger or smaller, and keeps the bytes that fit; data() may change. Large ones are
  // remapped rather than copied, so that the old and the new memory never exist side by side. Only
  // for a buffer of Allocate, by its only holder. Throws std::bad_alloc, and is then unchanged.
  void Resize(size_t size);
  // The memory it is cut from; null for one that has its own.
  const std::shared_ptr<Slab>& slab() const { return slab_; }

 private:
  friend class BufferPool;
  Buffer(char* data, size_t size, std::shared_ptr<Slab> slab = nullptr)
      : data_(data), size_(size), slab_(std::move(slab)) {}

  char* data_;
  size_t size_;
  std::shared_ptr<Slab> slab_;
};

// Buffers that are used again, so that the kernel need not clear their pages each time. Thread
// safe. A buffer may outlive the others' interest in the pool: it keeps the pool alive.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  enum class Memory {
    kSeparate,  // each buffer has its own
    kSlabs,     // buffers are cut from slabs, which stay until all their buffers are free
  };

  // At most `max_idle_bytes` stay allocated for later. Slabs stay, idle or not, while all of them
  // together take no more than that; one always does, and those that someone else holds too.
  static std::shared_ptr<BufferPool> Create(uint64_t max_idle_bytes,
                                            Memory memory = Memory::kSeparate);

  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of at least `size` bytes: less than an eighth more, or one that was used before, of up
  // to twice as many. As Buffer::Allocate.
  std::shared_ptr<Buffer> Allocate(size_t size);

  // From here on nothing stays allocated for later: for when only buffers that are still in use
  // keep the pool alive.
  void Close();

 private:
  BufferPool(uint64_t max_idle_bytes, Memory memory)
      : memory_(memory), max_idle_bytes_(max_idle_bytes) {}
  Buffer* CutFromSlab(size_t size);
  void Return(Buffer* buffer);
  // Those that need not stay. mutex_.
  std::vector<std::shared_ptr<Slab>> TakeIdleSlabs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Memory memory_;
  const uint64_t max_idle_bytes_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;                      // of the buffers in idle_
  std::map<size_t, std::vector<Buffer*>> idle_ ABSL_GUARDED_BY(mutex_);  // by size
  std::vector<std::shared_ptr<Slab>> slabs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BUFFER_H_
