// Memory that bytes from storage are read into and that views of them keep alive.

#ifndef SHARDFEED_IO_BUFFER_H_
#define SHARDFEED_IO_BUFFER_H_

#include <cstddef>
#include <memory>

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
  Buffer(char* data, size_t size) : data_(data), size_(size) {}

  char* data_;
  size_t size_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BUFFER_H_
