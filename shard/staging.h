// The folder that a dataset is written in until it is whole.

#ifndef SHARDFEED_SHARD_STAGING_H_
#define SHARDFEED_SHARD_STAGING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace shardfeed {

// StagingPath of a dataset, locked against other processes. What a killed process left there is
// still in it.
class Staging {
 public:
  // Creates the folder, and those above it. FailedPrecondition: another process is writing this
  // dataset. Others: see ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<Staging>> Open(const std::string& directory,
                                                       const std::string& stem);

  // Removes the folder with all that is in it, unless it is to be kept.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const std::string& path() const { return path_; }
  void Keep(bool keep) { keep_ = keep; }
  // A file that is not to be removed while the folder is in use.
  static constexpr char kLock[] = "lock";

 private:
  Staging(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  const std::string path_;
  const int lock_fd_;
  bool keep_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STAGING_H_
