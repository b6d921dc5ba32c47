// Raw data read once from beginning to end: a file or a pipe, decompressed if it is compressed.

#ifndef SHARDFEED_CONVERT_INPUT_INPUT_STREAM_H_
#define SHARDFEED_CONVERT_INPUT_INPUT_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/byte_source.h"
#include "io/file.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// Not thread-safe.
class InputStream : public ByteSource {
 public:
  // Opens a file, or a pipe (a FIFO, or what a shell makes of <(COMMAND)), for whose first bytes
  // this waits. NotFound and the like: see ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<InputStream>> Open(const std::string& path);

  // Fills `dst`, unless the content ends or an error follows. Errors name the file and, if the
  // compressed data is damaged, the offset: see MakeCodecDecompressor.
  absl::StatusOr<size_t> Read(absl::Span<char> dst) override;
  // Tells the kernel that all of the file will be read.
  void AdviseSequential() const {
    if (file_ != nullptr) file_->Advise(File::Access::kSequential);
  }
  // Skips up to `bytes` of the content without reading them, and returns how many; 0 if that is not
  // possible, because the content is compressed or comes from a pipe.
  uint64_t Skip(uint64_t bytes);

  const std::string& path() const { return path_; }
  bool compressed() const { return decompressor_ != nullptr; }
  // Text to follow an offset in messages: "" or " of the decompressed data".
  std::string_view content_name() const;
  // Offset in the content of what Read delivers next.
  uint64_t offset() const { return offset_; }
  // Number of bytes of the file that have been read, compressed or not.
  uint64_t file_offset() const { return file_ != nullptr ? source_->position() : offset_; }
  // Whether all of the content is known to have been delivered.
  bool at_end() const { return at_end_; }

 private:
  explicit InputStream(std::string path) : path_(std::move(path)) {}
  void DecompressIfNeeded(std::string_view first_bytes);

  const std::string path_;
  std::unique_ptr<ByteSource> raw_;
  std::shared_ptr<const File> file_;  // null for a pipe
  FileSource* source_ = nullptr;      // raw_, if that is a file
  std::unique_ptr<Decompressor> decompressor_;
  uint64_t offset_ = 0;
  bool at_end_ = false;
  absl::Status error_;  // for the Read after the content that precedes it
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_INPUT_STREAM_H_
