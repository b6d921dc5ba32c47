// Files that are written, and functions that make them durable.

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

// A new file. Writes are not buffered, so callers should append large pieces. Not thread-safe.
class OutputFile {
 public:
  // Creates `path`, or truncates an existing file.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);

  // Closes the file. Appended bytes stay in it, whether or not they are durable.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Continues interrupted and short writes. ResourceExhausted: disk full, quota or file size limit.
  absl::Status Append(std::string_view bytes);
  // Appends the bytes [offset, offset + size) of `from`, inside the kernel where possible; some
  // file systems then share them instead of copying. Fails as Append does. DataLoss: `from` is too
  // short.
  absl::Status AppendFrom(const File& from, uint64_t offset, uint64_t size);
  // Overwrites bytes that have been appended.
  absl::Status WriteAt(uint64_t offset, std::string_view bytes);
  // Returns once the bytes are on the storage device.
  absl::Status Sync();
  // Closes the file. The error may be that of an earlier write (NFS, quota).
  absl::Status Close();

 private:
  OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

// Opens a new file without a name, in the folder for temporary files (TMPDIR). It goes with its
// last descriptor, also if the process is killed, and can be opened again as /proc/self/fd/N. The
// caller closes the descriptor.
absl::StatusOr<int> OpenUnnamedFile();

// Renames a file within one file system, replacing any existing file.
absl::Status MoveFile(const std::string& from, const std::string& to);

// Makes a rename or a new file inside `directory` durable.
absl::Status SyncDirectory(const std::string& directory);

// Writes a whole (small) file. With `sync`, returns once the bytes are on the storage device.
absl::Status WriteFile(const std::string& path, std::string_view bytes, bool sync);

// As WriteFile, but writes `path`.tmp and renames it: readers find the old file, if there is one,
// or the new one, and never a part of it. Nothing else may write the same file meanwhile. After an
// error, `path`.tmp is removed.
absl::Status ReplaceFile(const std::string& path, std::string_view bytes, bool sync);

// Creates the folder and its missing parents, and makes each of them durable. Creates again, a
// hundred times at most, those that other processes remove meanwhile because they are empty.
absl::Status CreateFolders(const std::string& path);

// Creates a folder with a new name in the folder for temporary files (TMPDIR), which the caller
// removes. Returns its path.
absl::StatusOr<std::string> MakeTemporaryFolder();

}  // namespace shardfeed

#endif  // SHARDFEED_IO_OUTPUT_FILE_H_
