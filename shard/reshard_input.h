// Datasets whose records are to go into other shards.

#ifndef SHARDFEED_SHARD_RESHARD_INPUT_H_
#define SHARDFEED_SHARD_RESHARD_INPUT_H_

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
#include "shard/index.h"
#include "shard/schema.h"
#include "shardfeed/options.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// The records of one dataset, or of several one after another, numbered through all of their
// shards. Immutable, thread safe.
class ReshardInput {
 public:
  // Opens the index of each shard on `threads` threads (0: one per processor), and builds those
  // that are missing in memory. `bytes_passed` counts up the shards' bytes.
  //
  // Errors: those of OpenOrBuildIndex; DataLoss: a manifest that cannot be read.
  static absl::StatusOr<ReshardInput> Open(const std::vector<ShardSet>& sets, int threads,
                                           std::stop_token stop,
                                           std::atomic<uint64_t>* bytes_passed = nullptr);

  uint64_t num_records() const { return starts_.back(); }
  size_t num_shards() const { return paths_.size(); }
  // Where shard `i` starts; `i` <= num_shards().
  uint64_t StartOf(size_t i) const { return starts_[i]; }
  const std::string& path(size_t i) const { return paths_[i]; }
  const ShardIndex& index(size_t i) const { return *indexes_[i]; }
  // Compares the index of shard `i` with the shard (CompareIndexWithShard in index_check.h), unless
  // it was built from it.
  absl::Status CheckIndex(size_t i, std::stop_token stop) const;
  // Of all shards; nothing if they differ.
  std::optional<Compression> compression() const;
  // What all records together hold; nothing unless each dataset has a manifest.
  const std::optional<Schema>& schema() const { return schema_; }
  // Aborted: one of the datasets was replaced since.
  absl::Status CheckUnchanged() const;

 private:
  ReshardInput() = default;

  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const ShardIndex>> indexes_;
  std::vector<char> built_;  // whether an index was built, by several threads
  std::vector<uint64_t> starts_ = {0};
  std::optional<Schema> schema_;
  std::vector<DatasetVersion> versions_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_RESHARD_INPUT_H_
