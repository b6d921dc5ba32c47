// Records of datasets into other shards, without looking into them.

#ifndef SHARDFEED_SHARD_RESHARD_H_
#define SHARDFEED_SHARD_RESHARD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/block.h"
#include "shard/index.h"
#include "shard/manifest.h"
#include "shard/record_selection.h"
#include "shard/spec.h"
#include "shard/staging.h"

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

struct ReshardOptions {
  EncodeOptions encode;
  int threads = 0;
  bool overwrite = false;
  bool sync = true;
  std::stop_token stop;
  std::map<std::string, std::string> made_by;        // for the manifest
  std::atomic<uint64_t>* records_written = nullptr;  // counts up, for progress
};

// Writes the selected records of `input`. `ends` are the places in the selection where the shards
// of `output` end; the last one is its count, and their number `output.count`.
//
// Where all records are kept, in raw shards or in whole ones of the compression asked for, and the
// input's manifests tell what they hold, bytes are copied. Otherwise records are read, both CRCs
// checked, and encoded anew. A record's bytes stay the same either way. The files depend on input,
// selection and options alone, not on `threads`.
//
// No index is believed. Of a raw shard that is taken whole, every frame is found where the index
// says that it starts and ends, from byte 0 to the last, and the digest of all is compared. Of
// which only parts are taken, and of compressed shards, the index is compared with the shard first,
// unless it was built from it.
//
// Errors: those of DatasetWriter. DataLoss: damage, or an index that does not fit its shard, with
// file, record and byte. Nothing that looks like a dataset is left after one.
absl::StatusOr<Manifest> Reshard(const ReshardInput& input, const RecordSelection& selection,
                                 const std::vector<uint64_t>& ends, const OutputSpec& output,
                                 const ReshardOptions& options);

// Ends of `shards` shards of equal size (one record more or less) for `count` records.
std::vector<uint64_t> EvenEnds(uint64_t count, uint64_t shards);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_RESHARD_H_
