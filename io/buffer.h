// Memory that bytes from storage are read into and that views of them keep alive.

#ifndef SHARDFEED_IO_BUFFER_H_
#define SHARDFEED_IO_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace shardfeed {

// A block of uninitialised memory, aligned to 4096 bytes (what O_DIRECT asks for at most).
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

 private:
  friend class BufferPool;
  Buffer(char* data, size_t size) : data_(data), size_(size) {}

  char* data_;
  size_t size_;
};

// Buffers that are used again, so that the kernel need not clear their pages each time. Thread
// safe. A buffer may outlive the others' interest in the pool: it keeps the pool alive.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // At most `max_idle_bytes` stay allocated for later.
  static std::shared_ptr<BufferPool> Create(uint64_t max_idle_bytes);

  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of at least `size` bytes, and less than an eighth more. As Buffer::Allocate.
  std::shared_ptr<Buffer> Allocate(size_t size);

 private:
  explicit BufferPool(uint64_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}
  void Return(Buffer* buffer);

  const uint64_t max_idle_bytes_;
  std::mutex mutex_;
  uint64_t idle_bytes_ = 0;
  std::map<size_t, std::vector<Buffer*>> idle_;  // by size
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BUFFER_H_
