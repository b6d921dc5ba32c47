// Where a dataset is written before anybody sees it, and the commit that makes it the dataset of
// its name.
//
// Replacing a dataset is a transaction. The new shards, indexes and manifest are complete and
// durable before anything old is touched. One atomic step (a rename; in a store, the creation of an
// object) then puts a commit record beside the manifest. Before it, the name refers to the old
// dataset (or none); from then on, it refers to the new one, although its files are moved into
// place and the old ones are removed only afterwards. What an error or a kill left undone, the next
// reader or writer in a folder finds and finishes; in a store, CleanDataset does. Format and steps:
// docs/commit.md.

#ifndef SHARDFEED_SHARD_COMMIT_STAGING_H_
#define SHARDFEED_SHARD_COMMIT_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

struct FinishedShard;

// What is committed.
struct CommitPlan {
  std::string suffix;
  // Sizes of the new shards, in order.
  std::vector<uint64_t> shard_bytes;
  // Names of shards of the same stem that are removed once the new ones are in place.
  std::vector<std::string> old_shards;
};

// A shard that is being staged. Not thread-safe.
class StagedShard {
 public:
  // A shard that was not closed is given up.
  virtual ~StagedShard() = default;

  // Errors: of a file, see OutputFile::Append; of a store, those of Upload::Append.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Number of bytes appended.
  virtual uint64_t size() const = 0;
  // The shard is complete, and so is its index, the file NNNNN.index in Staging::path(). With
  // `sync`, a shard in a file becomes durable; those in stores are when they are committed.
  virtual absl::Status Close(bool sync) = 0;
};

// A shard in a local file, which is created. Errors: as OutputFile::Create.
absl::StatusOr<std::unique_ptr<StagedShard>> StageInFile(const std::string& path);

// The dataset that a process is writing. Not thread-safe, except that Create may be called by
// several threads, and that different threads may write different shards.
class Staging {
 public:
  // In a folder: locks the dataset against other processes, and finishes the commit of an earlier
  // writer. In a store, other processes can write the dataset at the same time; one of them commits
  // it.
  //
  // FailedPrecondition: another process is writing this dataset (or, in a store, putting it into
  // place), or the path is not a folder. DataLoss: the commit record is invalid; ignored if
  // `overwrite`. Others: see ErrnoStatus and Store::ErrorOf.
  static absl::StatusOr<std::unique_ptr<Staging>> Open(const std::string& directory,
                                                       const std::string& stem,
                                                       bool overwrite = false);

  // Removes everything that is staged, unless it is to be kept.
  virtual ~Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // A local folder for temporary files and for the indexes. If the dataset is written to a folder,
  // its shards and what a killed process left behind are there as well (StagingPath): the files of
  // shard i are NNNNN.shard and NNNNN.index, where NNNNN is i with at least five digits.
  const std::string& path() const { return path_; }
  // Removes everything that is staged, as the destructor does, which cannot tell of errors. Nothing
  // else may be called then.
  virtual absl::Status Discard() { return absl::OkStatus(); }

  // Keeps a staging folder. What is in a store is not kept.
  virtual void Keep(bool /*keep*/) {}

  // Begins shard number `number`, which will be `name` in the dataset.
  virtual absl::StatusOr<std::unique_ptr<StagedShard>> Create(size_t number,
                                                              const std::string& name) = 0;

  // Called for a shard whose files are complete, if a writer of only some shards wrote it.
  // Thread-safe for different shards.
  virtual absl::Status ShardFinished(size_t /*number*/, const FinishedShard& /*shard*/,
                                     bool /*sync*/) {
    return absl::OkStatus();
  }

  // Makes the staged dataset the one of its name, with this manifest. With `sync`, all staged files
  // must be durable. An error leaves the old dataset unchanged unless committed() is true: then the
  // name refers to the new dataset, and the next reader or writer (in a store, CleanDataset) moves
  // the rest of it into place.
  //
  // FailedPrecondition: the path of a file of the dataset is a folder; in a store, another process
  // has committed a dataset of this name since Open. Cancelled: `stop` was requested while the
  // shards were still on their way to a store. Others: see ErrnoStatus and Store::ErrorOf.
  virtual absl::Status Commit(const CommitPlan& plan, std::string_view manifest, bool sync,
                              const std::stop_token& stop) = 0;
  bool committed() const { return committed_; }

  // A file that must not be removed while the folder is in use.
  static constexpr char kLock[] = "lock";

 protected:
  explicit Staging(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  bool committed_ = false;
};

// Called by readers before they access the files of a dataset: finishes the commit of a writer that
// was killed, or waits for the process that is doing so. In a store, it only waits. Without a
// commit record, this takes one system call or request.
//
// Unavailable: the other process takes more than a minute. PermissionDenied: files must be moved,
// but this process may not write there. DataLoss: the commit record is invalid.
absl::Status FinishCommit(const std::string& directory, const std::string& stem);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_COMMIT_STAGING_H_
