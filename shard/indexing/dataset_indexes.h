// Writes the indexes of all shards of a dataset, with length columns, and its index pack.

#ifndef SHARDFEED_SHARD_INDEXING_DATASET_INDEXES_H_
#define SHARDFEED_SHARD_INDEXING_DATASET_INDEXES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/index/index.h"
#include "shardfeed/spec.h"

namespace shardfeed {

struct DatasetIndexesOptions {
  // Features that get length columns (feature_lengths.h).
  std::vector<std::string> lengths;
  int threads = 0;
  std::stop_token stop;
  std::atomic<uint64_t>* bytes_passed = nullptr;  // as in IndexBuildOptions
  std::atomic<uint64_t>* bytes_read = nullptr;
  // Called once for each shard with its index as it is written, from several threads. An error ends
  // the work.
  std::function<absl::Status(size_t shard, const ShardIndex& index)> on_index;
};

struct DatasetIndexes {
  uint64_t records = 0;
  uint64_t shard_bytes = 0;
  // The shards whose records were read for lengths.
  uint64_t shards_measured = 0;
  // What users should know about tar archives and about length columns that were left out, in the
  // order of the shards.
  std::vector<std::string> notes;
};

// Writes each index in one step. Existing columns of an index are kept, and shards that have all
// columns are not read again. If no record of a shard has a feature, its lengths are 0.
// Thread-safe; the last of several writers of a store wins.
//
// InvalidArgument: no record of the shards without its column has a feature, nor does the manifest,
// or its name cannot be that of a column. Indexes written by then have no column for it. Aborted:
// the dataset was replaced meanwhile. Others: those of WriteIndexWithLengths and of
// UpdateIndexPacks.
absl::StatusOr<DatasetIndexes> WriteIndexes(const ShardSet& set,
                                            const DatasetIndexesOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEXING_DATASET_INDEXES_H_
