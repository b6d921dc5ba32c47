// Statistics as JSON, for people and scripts, and as manifests hold them.

#ifndef SHARDFEED_SHARD_STATISTICS_STATISTICS_JSON_H_
#define SHARDFEED_SHARD_STATISTICS_STATISTICS_JSON_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "shard/schema/schema.h"
#include "shard/statistics/value_statistics.h"

namespace shardfeed {

// Shares of the quantiles that are reported.
inline constexpr double kToldShares[] = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99};

// Returns an object with a member for each feature of `schema`; docs/statistics.md explains the
// keys.
nlohmann::ordered_json StatisticsToJson(const Schema& schema, const ValueStatistics& values);

// Whether a frequent value can be shown: it is a number, or a text that is known as a whole.
bool IsShown(const FeatureStatistics& feature, const FrequentValues::Entry& entry);

// Returns the member "statistics" of a manifest: a part for people, and a code of all statistics.
nlohmann::ordered_json StatisticsToManifest(const Schema& schema, const ValueStatistics& values);
// Reads the code. Null: a later version wrote it. DataLoss: it is not the code of statistics of the
// number of records that `schema` has.
absl::StatusOr<std::shared_ptr<const ValueStatistics>> StatisticsFromManifest(
    const nlohmann::json& json, const Schema& schema);

// Describes the first difference between `stored` and `found`, which was collected from the records
// of `schema`, apart from what depends on chance; empty if there is none.
std::string DifferenceOf(const ValueStatistics& stored, const ValueStatistics& found,
                         const Schema& schema);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_STATISTICS_JSON_H_
