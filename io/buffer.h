// Memory for bytes read from storage, kept alive by the views of them.

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

// Uninitialized memory, aligned to 4096 bytes (the strictest alignment that O_DIRECT requires).
//
// Every holder of the shared_ptr may read the bytes; whoever fills the buffer must be its only
// holder while writing.
class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;

  // Rounds `size` up to the alignment. Throws std::bad_alloc, as operator new does, so a size that
  // comes from a file must be checked first.
  static std::shared_ptr<Buffer> Allocate(size_t size);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  // Changes the size and keeps the bytes that fit; data() may change. Large buffers are remapped
  // rather than copied, so that the old and the new memory never exist at the same time. Only the
  // sole holder of a buffer from Allocate may call this. Throws std::bad_alloc, and leaves the
  // buffer unchanged then.
  void Resize(size_t size);
  // The slab that the buffer is cut from; null if the buffer has memory of its own.
  const std::shared_ptr<Slab>& slab() const { return slab_; }

 private:
  friend class BufferPool;
  Buffer(char* data, size_t size, std::shared_ptr<Slab> slab = nullptr)
      : data_(data), size_(size), slab_(std::move(slab)) {}

  char* data_;
  size_t size_;
  std::shared_ptr<Slab> slab_;
};

// A pool of reusable buffers, so that the kernel does not have to clear their pages each time.
// Thread-safe. Buffers keep the pool alive and may outlive all other references to it.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  enum class Memory {
    kSeparate,  // Each buffer has an allocation of its own.
    kSlabs,     // Buffers are cut from slabs, which stay until all their buffers are free.
  };

  // At most `max_idle_bytes` of idle buffers stay allocated for reuse. Slabs, idle or not, stay
  // while all of them together take no more than that. At least one slab always stays, and so does
  // every slab that something else (such as a ring) refers to.
  static std::shared_ptr<BufferPool> Create(uint64_t max_idle_bytes,
                                            Memory memory = Memory::kSeparate);

  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns a buffer of at least `size` bytes. A new one is less than an eighth larger; a reused
  // one may be twice as large. Throws as Buffer::Allocate does.
  std::shared_ptr<Buffer> Allocate(size_t size);

  // Frees idle memory and keeps none from now on: to be called when only buffers that are still in
  // use keep the pool alive.
  void Close();

 private:
  BufferPool(uint64_t max_idle_bytes, Memory memory)
      : memory_(memory), max_idle_bytes_(max_idle_bytes) {}
  Buffer* CutFromSlab(size_t size);
  void Return(Buffer* buffer);
  // Removes the slabs that need not stay from slabs_ and returns them.
  std::vector<std::shared_ptr<Slab>> TakeIdleSlabs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Memory memory_;
  const uint64_t max_idle_bytes_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Total size of the buffers in idle_.
  uint64_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Idle buffers by size.
  std::map<size_t, std::vector<Buffer*>> idle_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Slab>> slabs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BUFFER_H_
