// Reads every record of a dataset, with shards in parallel.

#ifndef SHARDFEED_READER_SCAN_H_
#define SHARDFEED_READER_SCAN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "shard/spec/spec.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

struct ScanOptions {
  int threads = 0;
  CrcCheck check = CrcCheck::kAll;
  std::stop_token stop;
  std::atomic<uint64_t>* bytes_passed = nullptr;  // counts bytes of the files for progress
  // If set, called by the thread of a shard after its last block was consumed.
  std::function<void(size_t shard)> on_end;
};

// Passes the blocks of each shard, in order, to `consume`. Each thread reads one shard at a time,
// so `consume` is called concurrently for different shards. `shard` is the index in the set.
//
// DataLoss at the first defect; an error of `consume` ends the scan and is returned.
absl::Status ScanDataset(
    const ShardSet& set, const ScanOptions& options,
    const std::function<absl::Status(size_t shard, const RecordBlock& block)>& consume);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SCAN_H_
