// What is left of a damaged dataset, as a new one.

#ifndef SHARDFEED_SHARD_REPAIR_H_
#define SHARDFEED_SHARD_REPAIR_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/block.h"
#include "shard/manifest.h"
#include "shard/salvage.h"
#include "shard/spec.h"

namespace shardfeed {

// What was found in one shard.
struct ShardAccount {
  std::string shard;  // path
  bool missing = false;
  uint64_t bytes = 0;    // of the file
  uint64_t records = 0;  // kept
  // Lost; nullopt where that cannot be known.
  std::optional<uint64_t> records_lost = 0;
  uint64_t bytes_skipped = 0;
  bool numbers_exact = true;  // of the lost records
  std::vector<DamagedPlace> damage;
};

struct RepairAccount {
  std::vector<ShardAccount> shards;
  uint64_t records() const;
  std::optional<uint64_t> records_lost() const;
  // Damage of any kind, be it that nothing was lost by it.
  uint64_t num_damaged_places() const;
};

struct RepairOptions {
  bool dry_run = false;  // only tells what a repair would do
  int threads = 0;
  bool overwrite = false;
  bool sync = true;
  int compression_level = 6;
  std::stop_token stop;
  std::map<std::string, std::string> made_by;     // for the manifest
  std::atomic<uint64_t>* bytes_passed = nullptr;  // of the input; for progress
};

// The shards that `spec` names, those that are missing included, where the name says how many there
// are (stem@N) or the manifest does.
absl::StatusOr<ShardSet> ResolveForRepair(const std::string& spec);

// Reads all shards past damage and writes what is sound to `output`, records of shard i to shard i,
// in their order, with indexes and a manifest. Never touches the input. The compression stays; an
// output without a count gets as many shards as the input has.
//
// InvalidArgument: the output is the input, has another number of shards, or the input is
// compressed by SNAPPY. Others: those of DatasetWriter and of reading.
absl::StatusOr<RepairAccount> Repair(const ShardSet& input, OutputSpec output,
                                     const RepairOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_REPAIR_H_
