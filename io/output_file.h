// Files being written, and the steps that make them durable.

#ifndef SHARDFEED_IO_OUTPUT_FILE_H_
#define SHARDFEED_IO_OUTPUT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"

namespace shardfeed {

// A new file. Not buffered: callers hand over large pieces. Not thread safe.
class OutputFile {
 public:
  // Creates `path` or empties what is there.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);

  // Closes the file; what was appended stays, durable or not.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Interrupted and short writes are continued. ResourceExhausted: disk full, quota or file size
  // limit.
  absl::Status Append(std::string_view bytes);
  // Appends the bytes [offset, offset + size) of `from`, inside the kernel where that is possible:
  // on some file systems they are then shared, not copied. Errors as Append; DataLoss: `from` ends
  // before.
  absl::Status AppendFrom(const File& from, uint64_t offset, uint64_t size);
  // Overwrites bytes appended before.
  absl::Status WriteAt(uint64_t offset, std::string_view bytes);
  // Returns once the bytes are on the storage device.
  absl::Status Sync();
  // Closing can report a failed write (NFS, quota).
  absl::Status Close();

 private:
  OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

// Renames a file, replacing what is there, within one file system.
absl::Status MoveFile(const std::string& from, const std::string& to);

// Makes a rename or a new file inside `directory` durable.
absl::Status SyncDirectory(const std::string& directory);

// A whole (small) file of these bytes; with `sync`, they are on the storage device.
absl::Status WriteFile(const std::string& path, std::string_view bytes, bool sync);

// Creates the folder and those above it that are missing, each of them durable.
absl::Status CreateFolders(const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_OUTPUT_FILE_H_
