// Statistics of a dataset as a message of TensorFlow Data Validation (TFDV).
//
// Format: DatasetFeatureStatisticsList of tensorflow_metadata/proto/v0/statistics.proto.

#ifndef SHARDFEED_SHARD_STATISTICS_TFDV_STATISTICS_H_
#define SHARDFEED_SHARD_STATISTICS_TFDV_STATISTICS_H_

#include <string>

#include "shard/statistics/dataset_statistics.h"

namespace shardfeed {

// Returns the serialized message, with one dataset, which has no name, as from TFDV. int64
// features are INT and float ones FLOAT. Bytes are STRING with their most frequent values if these
// are UTF-8, and otherwise BYTES; a feature without values is STRING. docs/statistics.md says what
// each member holds.
std::string TfdvStatistics(const DatasetStatistics& statistics);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_TFDV_STATISTICS_H_
