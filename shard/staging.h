// The folder that a dataset is written in, and the step that makes it the dataset of its name.
//
// Replacing a dataset is a transaction. The new shards, indexes and manifest are complete and
// durable in the staging folder before anything old is touched. One rename then puts a commit
// record beside the manifest: before it, the name means the old dataset (or none); from then on, it
// means the new one, although its files are moved into place and the old ones are removed only
// afterwards, the manifest last. Whoever comes next, reader or writer, finds the record and
// finishes what an error or a kill left undone. Format and steps: docs/commit.md.

#ifndef SHARDFEED_SHARD_STAGING_H_
#define SHARDFEED_SHARD_STAGING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// What a commit record says. The files of shard i are NNNNN.shard and NNNNN.index in the staging
// folder, NNNNN being i with at least five digits, and the manifest is the file "manifest".
struct CommitPlan {
  std::string suffix;
  std::vector<uint64_t> shard_bytes;  // of the new shards, in order
  // Names of shards of the same stem that go once the new ones are in place.
  std::vector<std::string> old_shards;
};

// StagingPath of a dataset, locked against other processes. What a killed process left there is
// still in it. Not thread safe.
class Staging {
 public:
  // Creates the folder, and those above it, and finishes what an earlier writer committed.
  //
  // FailedPrecondition: another process is writing this dataset, or what stands at the path is not
  // a folder. DataLoss: a commit record that cannot be followed; who is to `overwrite` the dataset
  // need not follow it. Others: see ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<Staging>> Open(const std::string& directory,
                                                       const std::string& stem,
                                                       bool overwrite = false);

  // Removes the folder with all that is in it, unless it is to be kept.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const std::string& path() const { return path_; }
  void Keep(bool keep) { keep_ = keep; }

  // Makes the staged dataset the one of its name. With `sync`, all staged files must be durable.
  // An error leaves the old dataset as it was, unless committed() then is true: the name means the
  // new dataset, and whoever comes next moves the rest of it into place.
  //
  // FailedPrecondition: a folder stands where a file is to be. Others: see ErrnoStatus.
  absl::Status Commit(const CommitPlan& plan, bool sync);
  bool committed() const { return committed_; }

  // A file that is not to be removed while the folder is in use.
  static constexpr char kLock[] = "lock";
  static constexpr char kManifest[] = "manifest";

 private:
  friend absl::Status FinishCommit(const std::string& directory, const std::string& stem);

  Staging(std::string directory, std::string stem, int lock_fd);
  // Open, without finishing anything. Null: another process has the lock.
  static absl::StatusOr<std::unique_ptr<Staging>> Lock(const std::string& directory,
                                                       const std::string& stem);
  absl::Status RollForward(const CommitPlan& plan, bool sync);
  absl::Status FinishEarlier();

  const std::string directory_;
  const std::string stem_;
  const std::string path_;
  const int lock_fd_;
  bool keep_ = false;
  bool committed_ = false;
};

// For readers, before they look at the files of a dataset: finishes what a writer committed but did
// not live to finish, or waits for the process that is doing so. Without a commit record, one
// system call.
//
// Unavailable: the other process takes more than a minute. PermissionDenied: files have to be moved
// where this process may not write. DataLoss: the commit record cannot be followed.
absl::Status FinishCommit(const std::string& directory, const std::string& stem);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STAGING_H_
