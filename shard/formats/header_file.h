// Reads small parts of a file, and several of them together if they are close to each other. For
// walks over headers that skip what is between them.

#ifndef SHARDFEED_SHARD_FORMATS_HEADER_FILE_H_
#define SHARDFEED_SHARD_FORMATS_HEADER_FILE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/file.h"
#include "shardfeed/index.h"

namespace shardfeed {

// Not thread-safe. `file` and `options` must outlive it.
class HeaderFile {
 public:
  // Skipping up to this many bytes costs more than reading them.
  static constexpr uint64_t kReadThroughBytes = 16 << 10;

  HeaderFile(const File& file, const IndexBuildOptions& options) : file_(file), options_(options) {}

  // Returns `size` bytes at `offset`, all of which must be within the file, valid until the next
  // call. `near` asks to read ahead.
  absl::StatusOr<const char*> Get(uint64_t offset, size_t size, bool near) {
    if (offset < buffer_offset_ || offset + size > buffer_offset_ + buffer_.size()) {
      const uint64_t want = near ? std::max(size, kReadBytes) : size;
      buffer_.resize(std::min<uint64_t>(want, file_.size() - offset));
      buffer_offset_ = offset;
      absl::Status status = file_.ReadExactlyAt(offset, absl::MakeSpan(buffer_));
      if (!status.ok()) return status;
      if (options_.bytes_read != nullptr) *options_.bytes_read += buffer_.size();
    }
    return buffer_.data() + (offset - buffer_offset_);
  }

 private:
  static constexpr size_t kReadBytes = 256 << 10;

  const File& file_;
  const IndexBuildOptions& options_;
  std::string buffer_;
  uint64_t buffer_offset_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_HEADER_FILE_H_
