// A growing buffer over a ByteSource, for decoders that need several bytes in contiguous memory.

#ifndef SHARDFEED_TFRECORD_INPUT_BUFFER_H_
#define SHARDFEED_TFRECORD_INPUT_BUFFER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "io/byte_source.h"

namespace shardfeed {

// Not thread-safe. `source` must outlive the buffer.
class InputBuffer {
 public:
  static constexpr size_t kReadBytes = 256 << 10;

  // `offset` is the current position of `source` in the file.
  InputBuffer(ByteSource* source, uint64_t offset) : source_(source), offset_(offset) {}

  // The buffered bytes, valid until the next call of Ensure.
  std::string_view view() const { return std::string_view(bytes_).substr(begin_, end_ - begin_); }
  // File offset of the first byte of view().
  uint64_t offset() const { return offset_; }

  // Reads until view() has at least `size` bytes. Returns false if the source ends before. Memory
  // grows with the bytes actually read, not to a claimed `size` in one step.
  absl::StatusOr<bool> Ensure(size_t size) {
    while (end_ - begin_ < size) {
      if (begin_ > 0) {
        std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
      }
      if (bytes_.size() - end_ < kReadBytes) {
        bytes_.resize(
            std::max(bytes_.size() + kReadBytes, std::min(size + kReadBytes, 2 * bytes_.size())));
      }
      absl::StatusOr<size_t> n =
          source_->Read(absl::MakeSpan(bytes_.data() + end_, bytes_.size() - end_));
      if (!n.ok()) return n.status();
      if (*n == 0) return false;
      end_ += *n;
    }
    return true;
  }

  // Drops the first `size` bytes of view().
  void Consume(size_t size) {
    begin_ += size;
    offset_ += size;
  }

 private:
  ByteSource* source_;
  uint64_t offset_;
  // The part [begin_, end_) is the view.
  std::string bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_INPUT_BUFFER_H_
