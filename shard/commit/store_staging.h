// Datasets that are staged in object stores: their shards and indexes are uploads that nobody sees
// before they are published. The commit record (docs/commit.md) lists them, and the store creates
// it for one writer only.

#ifndef SHARDFEED_SHARD_COMMIT_STORE_STAGING_H_
#define SHARDFEED_SHARD_COMMIT_STORE_STAGING_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/bounded_json.h"
#include "net/upload.h"
#include "nlohmann/json.hpp"
#include "shard/commit/staging.h"

namespace shardfeed {

// Shards that others have uploaded.
struct UploadedShards {
  std::vector<PendingObject> objects;  // all shards of a dataset, in order
  // Called once the commit record is there: whether nobody has removed them, which nobody does who
  // sees the record.
  std::function<absl::Status()> check;
};

// Staging::Open of a dataset in a store. The indexes of `uploaded` must be in Staging::path()
// before Commit, which keeps their parts if it fails before the dataset is committed.
absl::StatusOr<std::unique_ptr<Staging>> OpenStoreStaging(const std::string& directory,
                                                          const std::string& stem,
                                                          UploadedShards uploaded = {});

// An object as commit records and messages of jobs have it, without its path.
nlohmann::ordered_json PendingToJson(const PendingObject& object);
// Without a writer. `members` gets what is wrong.
PendingObject PendingFromJson(JsonMembers& members, const nlohmann::json& json);

// FinishCommit of a dataset in a store, where readers write nothing.
absl::Status WaitForStoreCommit(const std::string& directory, const std::string& stem);

enum class FoundCommit {
  kNone,
  kFinished,   // the new dataset is in place
  kDiscarded,  // another writer had been quicker, and its dataset stays
};

// Finishes a commit whose writer was killed or failed. Several processes may do so at the same
// time, the writer included.
//
// DataLoss: the record is invalid, or parts of the new dataset are gone; in the latter case, the
// record is removed, and the message says what is left.
absl::StatusOr<FoundCommit> FinishStoreCommit(const std::string& directory,
                                              const std::string& stem);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_COMMIT_STORE_STAGING_H_
