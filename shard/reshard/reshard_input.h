// The input of resharding: datasets whose records are distributed to other shards.

#ifndef SHARDFEED_SHARD_RESHARD_RESHARD_INPUT_H_
#define SHARDFEED_SHARD_RESHARD_RESHARD_INPUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/declarations/joined_declarations.h"
#include "shard/index/index.h"
#include "shard/schema/schema.h"
#include "shard/statistics/value_statistics.h"
#include "shardfeed/options.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// The records of one dataset, or of several consecutive ones, numbered across all of their shards.
// Immutable and thread-safe.
class ReshardInput {
 public:
  // Opens the index of each shard on `threads` threads (0: one per processor), and builds missing
  // ones in memory. Adds the sizes of completed shards to `bytes_passed`, for progress.
  //
  // Errors: those of OpenOrBuildIndex; DataLoss: a manifest that cannot be read;
  // FailedPrecondition: the datasets number their classes differently.
  static absl::StatusOr<ReshardInput> Open(const std::vector<ShardSet>& sets, int threads,
                                           std::stop_token stop,
                                           std::atomic<uint64_t>* bytes_passed = nullptr);

  uint64_t num_records() const { return starts_.back(); }
  size_t num_shards() const { return paths_.size(); }
  // Returns the number of the first record of shard `i`; `i` must not exceed num_shards().
  uint64_t StartOf(size_t i) const { return starts_[i]; }
  const std::string& path(size_t i) const { return paths_[i]; }
  const ShardIndex& index(size_t i) const { return *indexes_[i]; }
  // Compares the index of shard `i` with the shard (CompareIndexWithShard in index_check.h), unless
  // it was built from it.
  absl::Status CheckIndex(size_t i, std::stop_token stop) const;
  // The compression of all shards; nullopt if they differ.
  std::optional<Compression> compression() const;
  // The schema of all records; nullopt unless each dataset has a matching manifest.
  const std::optional<Schema>& schema() const { return schema_; }
  // The statistics of all records, with the schema; null unless each manifest has some.
  const std::shared_ptr<const ValueStatistics>& values() const { return values_; }
  // The types of the features, from the manifests or, without them, as TFDS declares them, where
  // all datasets agree.
  const FeatureTypes& types() const { return types_; }
  // The names of the classes in all manifests and descriptions of TFDS.
  const FeatureClasses& classes() const { return declarations_.classes(); }
  // What users should know about classes and types.
  std::vector<std::string> Notes() const;
  // Aborted: one of the datasets has been replaced since Open.
  absl::Status CheckUnchanged() const;

 private:
  ReshardInput() = default;

  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const ShardIndex>> indexes_;
  // Whether each index was built. Not vector<bool>, because several threads write to it.
  std::vector<char> built_;
  std::vector<uint64_t> starts_ = {0};
  std::optional<Schema> schema_;
  std::shared_ptr<const ValueStatistics> values_;
  FeatureTypes types_;
  JoinedDeclarations declarations_;
  std::vector<DatasetVersion> versions_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_RESHARD_RESHARD_INPUT_H_
