// Files that are read whole, one after another, into memory that is used again.

#ifndef SHARDFEED_CONVERT_INPUT_FILE_LOADER_H_
#define SHARDFEED_CONVERT_INPUT_FILE_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "io/buffer.h"

namespace shardfeed {

// The most bytes of one value: Protocol Buffers end at 2 GiB, and the rest of the record is small.
inline constexpr uint64_t kMaxValueBytes = (uint64_t{1} << 31) - (1 << 20);

// One file at a time. Not thread safe: one for each thread.
class WholeFile {
 public:
  // So many bytes after a file's end may be read, whatever they are: simdjson does.
  static constexpr size_t kPadding = 64;

  // The bytes of the file at `path`, which live until the next call.
  //
  // NotFound and the like: see ErrnoStatus. DataLoss: it is larger than kMaxValueBytes.
  // FailedPrecondition: its size changed meanwhile.
  absl::StatusOr<std::string_view> Read(const std::string& path);

 private:
  // Reads `size` bytes, which is the whole of the file.
  absl::StatusOr<std::string_view> ReadAll(int fd, uint64_t size, const std::string& path);
  void Reserve(size_t size);

  // The kernel copies fastest to the beginning of a page, where the file begins in its own.
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_FILE_LOADER_H_
