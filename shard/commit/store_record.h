// The commit record of a dataset in an object store: what has been uploaded and is to be published.
// Format: docs/commit.md.

#ifndef SHARDFEED_SHARD_COMMIT_STORE_RECORD_H_
#define SHARDFEED_SHARD_COMMIT_STORE_RECORD_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/bounded_json.h"
#include "net/upload.h"
#include "nlohmann/json.hpp"

namespace shardfeed {

// The content of a commit record.
struct StoreCommit {
  std::string writer;  // UploadGroup::id
  std::string before;  // version of the manifest when the writer began; empty if there was none
  // Shard 0, its index, shard 1, its index and so on; then the index pack, if there is one.
  std::vector<PendingObject> objects;
  std::vector<std::string> old;  // names of old shards
  std::string manifest;
  std::string job;  // UploadedShards::job (store_staging.h)
};

std::string FormatStoreCommit(const StoreCommit& commit, const std::string& suffix);
// Parses the record at `path`. DataLoss: it is invalid, or would change objects that are not of the
// dataset `stem` in `directory`.
absl::StatusOr<StoreCommit> ParseStoreCommit(std::string_view text, const std::string& path,
                                             const std::string& directory, const std::string& stem);

// An object as commit records and messages of jobs have it, without its path.
nlohmann::ordered_json PendingToJson(const PendingObject& object);
// Without a writer. `members` gets what is wrong.
PendingObject PendingFromJson(JsonMembers& members, const nlohmann::json& json);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_COMMIT_STORE_RECORD_H_
