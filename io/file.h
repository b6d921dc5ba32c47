// Files opened for reading at any position.

#ifndef SHARDFEED_IO_FILE_H_
#define SHARDFEED_IO_FILE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/byte_source.h"

namespace shardfeed {

// A regular file (or a device of known size) open for reading. Thread safe: reads carry their own
// position. Offsets and sizes are in bytes.
class File {
 public:
  // NotFound, PermissionDenied ...: see ErrnoStatus. FailedPrecondition: `path` is a folder.
  static absl::StatusOr<std::shared_ptr<File>> Open(const std::string& path);

  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  // As it was when the file was opened.
  uint64_t size() const { return size_; }

  // Reads dst.size() bytes from `offset` and returns how many there were: fewer only at the end
  // of the file. Interrupted and short reads are continued.
  absl::StatusOr<size_t> ReadAt(uint64_t offset, absl::Span<char> dst) const;

  // The same, but DataLoss when the file ends before dst is full.
  absl::Status ReadExactlyAt(uint64_t offset, absl::Span<char> dst) const;

  // For engines, which read by other means. Owned by this object.
  int fd() const { return fd_; }
  // A second descriptor that reads past the page cache (O_DIRECT), opened by the first call; -1
  // where the file system has no such thing.
  int direct_fd() const;

  // Tells the kernel how the file will be read, so that it reads ahead (or does not). A hint.
  enum class Access { kSequential, kRandom };
  void Advise(Access access) const;

 private:
  File(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_;
  uint64_t size_;
  mutable std::once_flag direct_opened_;
  mutable int direct_fd_ = -1;
};

// Reads a file, or the part [begin, end) of it, front to back.
class FileSource : public ByteSource {
 public:
  explicit FileSource(std::shared_ptr<const File> file) : FileSource(file, 0, file->size()) {}
  FileSource(std::shared_ptr<const File> file, uint64_t begin, uint64_t end)
      : file_(std::move(file)), position_(begin), end_(end) {}

  absl::StatusOr<size_t> Read(absl::Span<char> dst) override;

  // Offset in the file of the next byte that Read will deliver.
  uint64_t position() const { return position_; }
  // Moves on without reading.
  void Seek(uint64_t position) { position_ = position; }

 private:
  std::shared_ptr<const File> file_;
  uint64_t position_;
  uint64_t end_;
};

// The whole of a (small) file. ResourceExhausted when it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_FILE_H_
