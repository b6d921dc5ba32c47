// A file beside the shards that is written anew in one step: whoever looks sees the old one or the
// new one, whole, also after a crash.

#ifndef SHARDFEED_SHARD_FILE_REPLACEMENT_H_
#define SHARDFEED_SHARD_FILE_REPLACEMENT_H_

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/output_file.h"

namespace shardfeed {

// Not thread safe. Several may be at work on one path, in this process or others: one after
// another.
class FileReplacement {
 public:
  // Makes the folder of `path` if there is none, and writes to PATH.tmp, which what was killed may
  // have left. Waits while somebody else replaces the same file.
  //
  // Cancelled: stopping was asked for meanwhile.
  static absl::StatusOr<std::unique_ptr<FileReplacement>> Begin(const std::string& path,
                                                                std::stop_token stop = {});
  // The same in a folder that must be there, and without waiting: while others are at work it
  // writes to PATH.1.tmp, PATH.2.tmp ..., and whoever commits last wins. For what takes long to
  // write. What was killed may have left any of these; it is taken over or removed.
  static absl::StatusOr<std::unique_ptr<FileReplacement>> BeginBeside(const std::string& path);
  // Removes what was written, unless that was committed.
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  OutputFile& file() { return *file_; }
  // Makes it durable and puts it into place.
  absl::Status Commit();

 private:
  static absl::StatusOr<std::unique_ptr<FileReplacement>> Open(const std::string& path,
                                                               std::string temporary, int lock);
  FileReplacement(std::string path, std::string temporary, int lock)
      : path_(std::move(path)), temporary_(std::move(temporary)), lock_(lock) {}

  const std::string path_;
  const std::string temporary_;
  const int lock_;  // of the temporary file; held up to the end
  std::unique_ptr<OutputFile> file_;
  bool moved_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FILE_REPLACEMENT_H_
