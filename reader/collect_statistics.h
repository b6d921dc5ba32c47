// Reads a dataset for its statistics.

#ifndef SHARDFEED_READER_COLLECT_STATISTICS_H_
#define SHARDFEED_READER_COLLECT_STATISTICS_H_

#include "absl/status/statusor.h"
#include "reader/scan.h"
#include "shard/spec/spec.h"
#include "shard/statistics/dataset_statistics.h"

namespace shardfeed {

// Reads all records, with shards in parallel. The result does not depend on the number of threads.
// Errors: those of ScanDataset; FailedPrecondition if the dataset was replaced meanwhile.
absl::StatusOr<DatasetStatistics> CollectStatistics(const ShardSet& set,
                                                    const ScanOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_COLLECT_STATISTICS_H_
