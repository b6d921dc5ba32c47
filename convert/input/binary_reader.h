// A binary file read front to back, inflated where it is compressed with gzip.

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
#include "io/file.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// Memory grows with what is really read at a time, and stays so. Not thread safe.
class BinaryReader {
 public:
  // Called after each read with the offset reached in the file; a failure ends the reading.
  using OnRead = std::function<absl::Status(uint64_t file_offset)>;

  // GZIP is told by its first two bytes. NotFound and the like: see ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<BinaryReader>> Open(const std::string& path,
                                                            OnRead on_read = nullptr);

  // The next `size` bytes, or as many as there are before the end: a view that lives until the next
  // call. DataLoss: the compressed data is damaged or cut, with "FILE: ...".
  absl::StatusOr<std::string_view> Read(size_t size);

  // Moves on by `size` bytes and returns how many there were: fewer only at the end. Of a file that
  // is not compressed, nothing is read.
  absl::StatusOr<uint64_t> Skip(uint64_t size);

  // Where the next byte stands in the content.
  uint64_t offset() const { return offset_; }
  bool compressed() const { return decompressor_ != nullptr; }
  // What follows an offset in messages: "" or " of the decompressed data".
  std::string_view content_name() const;

 private:
  BinaryReader(std::shared_ptr<const File> file, OnRead on_read);
  absl::Status Fill(size_t size);

  std::shared_ptr<const File> file_;
  FileSource source_;
  std::unique_ptr<Decompressor> decompressor_;
  OnRead on_read_;
  std::string buffer_;  // [begin_, end_) is read and not yet handed out
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t read_bytes_;  // how much the next read asks for at least
  uint64_t offset_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_BINARY_READER_H_
