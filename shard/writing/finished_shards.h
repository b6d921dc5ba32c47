// The files that a resumable writer keeps beside the shards in its staging folder: a plan, which
// identifies what it is writing, and for each finished shard its totals in NNNNN.done, beside
// NNNNN.shard and NNNNN.index, where NNNNN is the shard's number.
//
// `folder` is the path of the staging folder, which the caller must have locked. All functions are
// thread-safe for different shards.

#ifndef SHARDFEED_SHARD_WRITING_FINISHED_SHARDS_H_
#define SHARDFEED_SHARD_WRITING_FINISHED_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "shard/schema/schema.h"
#include "shard/schema/skipped_records.h"

namespace shardfeed {

class ValueStatistics;

// The manifest's data about a finished shard.
struct FinishedShard {
  uint64_t bytes = 0;
  uint64_t records = 0;
  uint32_t records_digest = 0;
  Schema schema;
  SkippedRecords skipped;
  // Null: not known.
  std::shared_ptr<const ValueStatistics> values;
};

// Without the statistics of values, which take too much room for a message.
nlohmann::json FinishedToJson(const FinishedShard& shard);
// Nullopt: FinishedToJson cannot have written `json`.
std::optional<FinishedShard> FinishedFromJson(const nlohmann::json& json);

// Returns whether an earlier resumable writer has left its plan.
bool HasPlan(const std::string& folder);
// Returns whether the plan of the earlier writer is `plan`; false also if it cannot be read.
bool PlanIs(const std::string& folder, std::string_view plan);
// Writes the plan; with `sync`, makes it durable. Errors: as WriteFile.
absl::Status WritePlan(const std::string& folder, std::string_view plan, bool sync);

// Records atomically that shard `number`, whose files are complete, is finished. Errors: as
// WriteFile and MoveFile.
absl::Status WriteFinished(const std::string& folder, size_t number, const FinishedShard& shard,
                           bool sync);

// Returns a shard that an earlier writer finished, or nullopt if its files are missing or do not
// match their description. Reads the whole shard, because a machine that crashed may have lost data
// that was recorded as written. Cancelled: `stop` was requested.
absl::StatusOr<std::optional<FinishedShard>> ReadFinished(const std::string& folder, size_t number,
                                                          const std::stop_token& stop);

// Returns the sorted names of the plan and of the files of these finished shards, which are to be
// kept.
std::vector<std::string> FilesOfFinished(const std::vector<size_t>& numbers);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_FINISHED_SHARDS_H_
