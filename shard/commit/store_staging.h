// Datasets that are staged in object stores: their shards and indexes are uploads that nobody sees
// before they are published. The commit record (docs/commit.md) lists them, and the store creates
// it for one writer only.

#ifndef SHARDFEED_SHARD_COMMIT_STORE_STAGING_H_
#define SHARDFEED_SHARD_COMMIT_STORE_STAGING_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/upload.h"
#include "shard/commit/staging.h"

namespace shardfeed {

// Small requests to a store at a time.
inline constexpr int kStoreRequests = 32;

// Returns the positions of objects of a dataset that are not published and cannot be, because the
// store has removed their parts. Ascending. Errors: those of Store::ErrorOf.
absl::StatusOr<std::vector<size_t>> LostObjects(const std::vector<PendingObject>& objects);

// Shards that others have uploaded.
struct UploadedShards {
  std::vector<PendingObject> objects;  // all shards of a dataset, in order
  // The path below JobsPath of an object that is removed before the shards are (see
  // WhileNothingIsCommitted). If it does not exist, the shards may be gone, and the dataset is not
  // committed.
  std::string job;
};

// Staging::Open of a dataset in a store. The indexes of `uploaded` must be in Staging::path()
// before Commit, which keeps their parts if it fails before the dataset is committed.
absl::StatusOr<std::unique_ptr<Staging>> OpenStoreStaging(const std::string& directory,
                                                          const std::string& stem,
                                                          UploadedShards uploaded = {});

// FinishCommit of a dataset in a store, where readers write nothing.
absl::Status WaitForStoreCommit(const std::string& directory, const std::string& stem);

enum class FoundCommit {
  kNone,
  kFinished,   // the new dataset is in place
  kDiscarded,  // another writer had been quicker, or the job is gone: what was there stays
};

// Finishes a commit whose writer was killed or failed. Several processes may do so at the same
// time, the writer included.
//
// DataLoss: the record is invalid, or parts of the new dataset are gone; in the latter case, the
// record is removed, and the message says what is left.
absl::StatusOr<FoundCommit> FinishStoreCommit(const std::string& directory,
                                              const std::string& stem);

// Finishes a commit that is there, and calls `work` while there can be no other one of this
// dataset, for which the place of the commit record is taken. Writers wait for that. If this
// process is killed, others go on after the patience of SHARDFEED_NET_SECONDS. Nobody can commit to
// a store without conditional requests, so `work` is then called at once.
//
// Unavailable: others keep committing. Others: those of FinishStoreCommit and of `work`.
absl::Status WhileNothingIsCommitted(const std::string& directory, const std::string& stem,
                                     const std::function<absl::Status()>& work);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_COMMIT_STORE_STAGING_H_
