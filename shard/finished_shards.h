// What a writer that may be resumed leaves beside the shards in its staging folder: a plan, which
// tells what it was about to write, and for each finished shard its sums, NNNNN.done beside
// NNNNN.shard and NNNNN.index, NNNNN being the shard's number.
//
// `folder` is the path of the staging folder, which the caller holds locked. All functions are
// thread safe for different shards.

#ifndef SHARDFEED_SHARD_FINISHED_SHARDS_H_
#define SHARDFEED_SHARD_FINISHED_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/schema.h"
#include "shard/skipped_records.h"

namespace shardfeed {

// What the manifest says of a finished shard.
struct FinishedShard {
  uint64_t bytes = 0;
  uint64_t records = 0;
  uint32_t records_digest = 0;
  Schema schema;
  SkippedRecords skipped;
};

// Whether an earlier writer that could be resumed has left its plan.
bool HasPlan(const std::string& folder);
// Whether the plan of the earlier writer is `plan`; false too if it cannot be read.
bool PlanIs(const std::string& folder, std::string_view plan);
// With `sync`, the plan is on the storage device. Errors: as WriteFile.
absl::Status WritePlan(const std::string& folder, std::string_view plan, bool sync);

// Says that shard `number`, whose files are complete, is finished: a reader sees all of it or
// nothing. Errors: as WriteFile and MoveFile.
absl::Status WriteFinished(const std::string& folder, size_t number, const FinishedShard& shard,
                           bool sync);

// A shard that an earlier writer finished, or nullopt where its files are missing or do not fit
// what was said of them. The shard is read through: a machine that stopped may have lost what was
// written, whatever is said beside it. Cancelled: `stop` was asked for.
absl::StatusOr<std::optional<FinishedShard>> ReadFinished(const std::string& folder, size_t number,
                                                          const std::stop_token& stop);

// The names of the files to keep of these finished shards, and that of the plan, sorted.
std::vector<std::string> FilesOfFinished(const std::vector<size_t>& numbers);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FINISHED_SHARDS_H_
