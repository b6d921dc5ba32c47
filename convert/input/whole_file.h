// Reads whole files, one after another, into memory that is reused.

#ifndef SHARDFEED_CONVERT_INPUT_WHOLE_FILE_H_
#define SHARDFEED_CONVERT_INPUT_WHOLE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/buffer.h"

namespace shardfeed {

// Maximum size of one value: Protocol Buffers end at 2 GiB, and the rest of the record is small.
inline constexpr uint64_t kMaxValueBytes = (uint64_t{1} << 31) - (1 << 20);

// Holds one file at a time. Not thread-safe: use one for each thread.
class WholeFile {
 public:
  // This many bytes after a file's end may be read, as simdjson does; their values do not matter.
  static constexpr size_t kPadding = 64;

  // Returns the bytes of the file at `path`, which are valid until the next call.
  //
  // NotFound and the like: see ErrnoStatus. DataLoss: the file is larger than kMaxValueBytes.
  // FailedPrecondition: its size changed while it was being read.
  absl::StatusOr<std::string_view> Read(const std::string& path);

 private:
  // Reads `size` bytes, which must be the whole file.
  absl::StatusOr<std::string_view> ReadAll(int fd, uint64_t size, const std::string& path);
  void Reserve(size_t size);

  // Aligned to a page: the kernel copies fastest from and to the beginning of pages.
  std::shared_ptr<Buffer> buffer_;
};

// Passes the bytes of the file at `path` to `visit`. Thread-safe; they are read into memory that
// belongs to the calling thread. Errors: those of WholeFile::Read.
absl::Status VisitFile(const std::string& path,
                       const std::function<void(std::string_view bytes)>& visit);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_WHOLE_FILE_H_
