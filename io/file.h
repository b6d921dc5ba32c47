// Files that are open for reading at any position.

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

// A regular file (or a block device) open for reading, or one version of an object in a store
// (net/remote_file.h). Thread-safe: every read states its own position. Offsets and sizes are in
// bytes.
class File {
 public:
  // FailedPrecondition: `path` is a folder or a special file. NotFound, PermissionDenied and
  // others: see ErrnoStatus.
  static absl::StatusOr<std::shared_ptr<File>> Open(const std::string& path);

  virtual ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  // Size of the file when it was opened.
  uint64_t size() const { return size_; }

  // Reads dst.size() bytes at `offset` and returns the number of bytes read, which is smaller only
  // at the end of the file. Continues interrupted and short reads.
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, absl::Span<char> dst) const;

  // The same, but returns DataLoss if the file ends before `dst` is full.
  absl::Status ReadExactlyAt(uint64_t offset, absl::Span<char> dst) const;

  // The descriptor, for engines that read by other means. Owned by this object. -1 for an object in
  // a store, which has none.
  int fd() const { return fd_; }
  // A second descriptor that bypasses the page cache (O_DIRECT), opened by the first call; -1 if
  // the file system does not support it. Not for objects in stores.
  int direct_fd() const;

  // Hints how the file will be read, so that the kernel, or the store's client, reads ahead or does
  // not.
  enum class Access { kSequential, kRandom };
  virtual void Advise(Access access) const;

 protected:
  File(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_;
  uint64_t size_;

 private:
  mutable std::once_flag direct_opened_;
  mutable int direct_fd_ = -1;
};

// Reads a file, or the part [begin, end) of it, sequentially.
class FileSource : public ByteSource {
 public:
  explicit FileSource(std::shared_ptr<const File> file) : FileSource(file, 0, file->size()) {}
  FileSource(std::shared_ptr<const File> file, uint64_t begin, uint64_t end)
      : file_(std::move(file)), position_(begin), end_(end) {}

  absl::StatusOr<size_t> Read(absl::Span<char> dst) override;

  // File offset of the next byte that Read will deliver.
  uint64_t position() const { return position_; }
  // Continues reading at `position`.
  void Seek(uint64_t position) { position_ = position; }

 private:
  std::shared_ptr<const File> file_;
  uint64_t position_;
  uint64_t end_;
};

// Reads a whole (small) file. ResourceExhausted: it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_FILE_H_
