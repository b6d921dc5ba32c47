// Reads a binary file sequentially, and decompresses it if it is compressed.

#ifndef SHARDFEED_CONVERT_INPUT_BINARY_READER_H_
#define SHARDFEED_CONVERT_INPUT_BINARY_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/input/input_stream.h"

namespace shardfeed {

// Memory grows with the largest Read that succeeds, and is kept. Not thread-safe.
class BinaryReader {
 public:
  // Called after each read with the offset reached in the file; a failure ends the reading.
  using OnRead = std::function<absl::Status(uint64_t file_offset)>;

  // See InputStream.
  static absl::StatusOr<std::unique_ptr<BinaryReader>> Open(const std::string& path,
                                                            OnRead on_read = nullptr);

  // Returns the next `size` bytes, or fewer at the end, as a view that is valid until the next
  // call. Errors: see InputStream.
  absl::StatusOr<std::string_view> Read(size_t size);

  // Skips `size` bytes and returns how many there were, which is fewer only at the end. Reads
  // nothing if the file is not compressed.
  absl::StatusOr<uint64_t> Skip(uint64_t size);

  // Offset of the next byte in the decompressed content.
  uint64_t offset() const { return offset_; }
  bool compressed() const { return stream_->compressed(); }
  // Text to follow an offset in messages: "" or " of the decompressed data".
  std::string_view content_name() const { return stream_->content_name(); }

 private:
  BinaryReader(std::unique_ptr<InputStream> stream, OnRead on_read);
  absl::Status Fill(size_t size);

  std::unique_ptr<InputStream> stream_;
  OnRead on_read_;
  std::string buffer_;  // [begin_, end_) has been read but not returned
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t read_bytes_;  // minimum size of the next read
  uint64_t offset_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_BINARY_READER_H_
