#include "io/buffer.h"

#include <cstdlib>
#include <new>

namespace shardfeed {

std::shared_ptr<Buffer> Buffer::Allocate(size_t size) {
  const size_t rounded = size == 0 ? kAlignment : (size + kAlignment - 1) / kAlignment * kAlignment;
  void* data = rounded < size ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  return std::shared_ptr<Buffer>(new Buffer(static_cast<char*>(data), rounded));
}

Buffer::~Buffer() { std::free(data_); }

}  // namespace shardfeed
