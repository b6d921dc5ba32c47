// Statistics of datasets, as `inspect --statistics` and `diff` print them.

#ifndef SHARDFEED_CLI_REPORTS_STATISTICS_REPORT_H_
#define SHARDFEED_CLI_REPORTS_STATISTICS_REPORT_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/terminal/console.h"
#include "nlohmann/json.hpp"
#include "shard/statistics/dataset_statistics.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// Returns the statistics that the manifest has, if the shards still have the sizes that it lists.
std::optional<DatasetStatistics> StoredStatistics(const ShardSet& set);

// Reads all records, with progress that calls the dataset `name`.
absl::StatusOr<DatasetStatistics> ReadStatistics(const ShardSet& set, const std::string& name,
                                                 const CommandOptions& options);

// Adds how many records repeat another one, if that is known.
void AddRepeatedRecords(const DatasetStatistics& statistics, nlohmann::ordered_json* json);

// Prints the statistics of each feature, or of `only` unless it is empty.
void PrintStatistics(const DatasetStatistics& statistics, const std::string& only);

// Returns an object with a member for each feature.
nlohmann::ordered_json StatisticsToJson(const DatasetStatistics& statistics);

// Returns "mean 3.2, deviation 1.5", "about 1,200 different values" and the like: a feature in few
// words.
std::string InShort(const FeatureStatistics& feature);

// Returns the most frequent value of bytes for people, or a number; empty if it is not text.
std::string FrequentText(const FeatureStatistics& feature, const FrequentValues::Entry& entry);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_STATISTICS_REPORT_H_
