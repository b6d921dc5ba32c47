// Records of datasets into other shards, without looking into them.

#ifndef SHARDFEED_SHARD_RESHARD_H_
#define SHARDFEED_SHARD_RESHARD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/block.h"
#include "shard/manifest.h"
#include "shard/record_selection.h"
#include "shard/reshard_input.h"
#include "shard/spec.h"

namespace shardfeed {

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
