// Replaces a file beside the shards atomically: readers see either the complete old file or the
// complete new one, even after a crash.

#ifndef SHARDFEED_SHARD_COMMIT_FILE_REPLACEMENT_H_
#define SHARDFEED_SHARD_COMMIT_FILE_REPLACEMENT_H_

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/output_file.h"

namespace shardfeed {

// Not thread-safe. Several objects, in this process or others, may replace the same path; they take
// turns.
class FileReplacement {
 public:
  // Creates the folder of `path` if it does not exist, and writes to PATH.tmp, which may have been
  // left behind by a killed process. Waits while another object replaces the same file.
  //
  // Cancelled: `stop` was requested while waiting.
  static absl::StatusOr<std::unique_ptr<FileReplacement>> Begin(const std::string& path,
                                                                std::stop_token stop = {});
  // The same in a folder that must exist, and without waiting: while others replace the file, it
  // writes to PATH.1.tmp, PATH.2.tmp and so on, and the last commit wins. Suits files that take
  // long to write. Temporary files left behind by killed processes are reused or removed.
  static absl::StatusOr<std::unique_ptr<FileReplacement>> BeginBeside(const std::string& path);
  // Removes the temporary file unless it was committed.
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  OutputFile& file() { return *file_; }
  // Makes the new file durable and moves it into place.
  absl::Status Commit();

 private:
  static absl::StatusOr<std::unique_ptr<FileReplacement>> Open(const std::string& path,
                                                               std::string temporary, int lock);
  FileReplacement(std::string path, std::string temporary, int lock)
      : path_(std::move(path)), temporary_(std::move(temporary)), lock_(lock) {}

  const std::string path_;
  const std::string temporary_;
  // The descriptor that holds the lock on the temporary file until destruction.
  const int lock_;
  std::unique_ptr<OutputFile> file_;
  bool moved_ = false;
};

// Returns the path that a temporary file of this name would replace; empty if it is not the name of
// one.
std::string_view ReplacedBy(std::string_view temporary);

// Removes a temporary file if no process is writing it, and returns whether it did, or would with
// `dry_run`. Errors: those of ErrnoStatus.
absl::StatusOr<bool> RemoveAbandoned(const std::string& temporary, bool dry_run);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_COMMIT_FILE_REPLACEMENT_H_
