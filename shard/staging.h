// The staging folder, in which a dataset is written, and the commit that makes it the dataset of
// its name.
//
// Replacing a dataset is a transaction. The new shards, indexes and manifest are complete and
// durable in the staging folder before any old file is touched. One rename then puts a commit
// record beside the manifest. Before it, the name refers to the old dataset (or none); from then
// on, it refers to the new one, although its files are moved into place and the old ones are
// removed only afterwards. The next reader or writer finds the record and finishes what an error or
// a kill left undone. Format and steps: docs/commit.md.

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

// The content of a commit record. The files of shard i are NNNNN.shard and NNNNN.index in the
// staging folder, where NNNNN is i with at least five digits; the manifest is the file "manifest".
struct CommitPlan {
  std::string suffix;
  // Sizes of the new shards, in order.
  std::vector<uint64_t> shard_bytes;
  // Names of shards of the same stem that are removed once the new ones are in place.
  std::vector<std::string> old_shards;
};

// The staging folder of a dataset (StagingPath), locked against other processes. Files left behind
// by a killed process are still in it. Not thread-safe.
class Staging {
 public:
  // Creates the folder and its parents, and finishes the commit of an earlier writer.
  //
  // FailedPrecondition: another process is writing this dataset, or the path is not a folder.
  // DataLoss: the commit record is invalid; ignored if `overwrite`. Others: see ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<Staging>> Open(const std::string& directory,
                                                       const std::string& stem,
                                                       bool overwrite = false);

  // Removes the folder and its content, unless it is to be kept.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const std::string& path() const { return path_; }
  void Keep(bool keep) { keep_ = keep; }

  // Makes the staged dataset the one of its name. With `sync`, all staged files must be durable.
  // An error leaves the old dataset unchanged unless committed() is true: then the name refers to
  // the new dataset, and the next reader or writer moves the rest of it into place.
  //
  // FailedPrecondition: the path of a file of the dataset is a folder. Others: see ErrnoStatus.
  absl::Status Commit(const CommitPlan& plan, bool sync);
  bool committed() const { return committed_; }

  // A file that must not be removed while the folder is in use.
  static constexpr char kLock[] = "lock";
  static constexpr char kManifest[] = "manifest";

 private:
  friend absl::Status FinishCommit(const std::string& directory, const std::string& stem);

  Staging(std::string directory, std::string stem, int lock_fd);
  // The same as Open, but does not finish an earlier commit. Null: another process has the lock.
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

// Called by readers before they access the files of a dataset: finishes the commit of a writer that
// was killed, or waits for the process that is doing so. Without a commit record, this takes one
// system call.
//
// Unavailable: the other process takes more than a minute. PermissionDenied: files must be moved,
// but this process may not write there. DataLoss: the commit record is invalid.
absl::Status FinishCommit(const std::string& directory, const std::string& stem);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STAGING_H_
