// Writes indexes beside their shards, with length columns. IndexShard is declared in
// shardfeed/index.h.

#ifndef SHARDFEED_SHARD_INDEXING_INDEX_WRITE_H_
#define SHARDFEED_SHARD_INDEXING_INDEX_WRITE_H_

#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shard/index/index.h"
#include "shardfeed/index.h"

namespace shardfeed {

struct WrittenIndex {
  IndexSummary summary;
  // The features that were measured because their columns were missing, and those of them that no
  // record of the shard has, which get no column.
  std::vector<std::string> measured;
  std::vector<std::string> missing;
  // The length columns of the former index that were left out, because it listed other records.
  std::vector<std::string> dropped;
  // Names of features of the records that were read, for suggestions.
  std::set<std::string> features;
};

// Writes the index of the shard at `path` as IndexShard does, with length columns for `features`
// (feature_lengths.h). Columns of the former index are kept if it lists the same records. For those
// that it lacks, all records are read and checked.
//
// DataLoss, which keeps the former index: as IndexShard; with lengths, also payloads that are
// damaged or not tf.train.Examples.
absl::StatusOr<WrittenIndex> WriteIndexWithLengths(const std::string& path,
                                                   absl::Span<const std::string> features,
                                                   const IndexBuildOptions& options);

// Adds length columns to the index of the shard at `path`, whose records are those that `index`
// lists. Existing columns are kept as by WriteIndexWithLengths. Errors: those of
// WithLengthColumns and of writing. Cancelled: `stop` was requested while others wrote the index.
absl::Status AddLengthColumns(const std::string& path, const ShardIndex& index,
                              absl::Span<const NewLengthColumn> columns, std::stop_token stop);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEXING_INDEX_WRITE_H_
