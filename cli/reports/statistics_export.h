// Writes statistics of a dataset for other programs: `inspect --export`.

#ifndef SHARDFEED_CLI_REPORTS_STATISTICS_EXPORT_H_
#define SHARDFEED_CLI_REPORTS_STATISTICS_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/statistics/dataset_statistics.h"

namespace shardfeed {

struct StatisticsExport {
  std::string path;  // "-": standard output
  // The message alone; otherwise it is the only record of a TFRecord file.
  bool binary = false;
};

// Parses "tfdv=FILE". InvalidArgument: it has another form, or FILE is a URL.
absl::StatusOr<StatisticsExport> ParseStatisticsExport(const std::string& text);

// Replaces the file atomically; its folder must exist.
absl::Status ExportStatistics(const StatisticsExport& to, const DatasetStatistics& statistics);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_STATISTICS_EXPORT_H_
