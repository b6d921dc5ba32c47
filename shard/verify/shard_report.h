// Reports on single shards, which other processes may have made, and what they say together.

#ifndef SHARDFEED_SHARD_VERIFY_SHARD_REPORT_H_
#define SHARDFEED_SHARD_VERIFY_SHARD_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/spec.h"
#include "shardfeed/verify.h"

namespace shardfeed {

class DatasetStatistics;

// The report on a shard that could not be read: its only defect is why.
ShardReport UnreadableShard(const std::string& path, const absl::Status& why);

// As Verify. From level kExamples on, `found` gets the schema and the statistics of the
// sound records.
absl::StatusOr<VerifyReport> Verify(const ShardSet& set, const VerifyOptions& options,
                                    DatasetStatistics* found);

// Verifies one shard as Verify does, which also looks at its index in the index pack.
absl::StatusOr<ShardReport> VerifyShardOfSet(const std::string& path, const VerifyOptions& options);

// The report on a dataset whose shards have these reports, in order: what Verify returns,
// without reading the shards. Aborted: the dataset was replaced meanwhile.
absl::StatusOr<VerifyReport> MergeShardReports(const ShardSet& set, std::vector<ShardReport> shards,
                                               VerifyLevel level);

// A report as text, for other processes: JSON without line feeds. `level` names what was checked.
std::string ShardReportToText(const ShardReport& report, std::string_view level);
// InvalidArgument: ShardReportToText cannot have written `text`.
absl::StatusOr<ShardReport> ShardReportFromText(std::string_view text, std::string* level);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_VERIFY_SHARD_REPORT_H_
