// Distributes the records of datasets to other shards, without parsing them.

#ifndef SHARDFEED_SHARD_RESHARD_RESHARD_H_
#define SHARDFEED_SHARD_RESHARD_RESHARD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/manifest/manifest.h"
#include "shard/reshard/record_selection.h"
#include "shard/reshard/reshard_input.h"
#include "shard/spec/spec.h"
#include "shard/writing/block.h"
#include "shard/writing/shared_job.h"

namespace shardfeed {

struct ReshardOptions {
  EncodeOptions encode;
  int threads = 0;
  bool overwrite = false;
  bool sync = true;
  std::stop_token stop;
  // Stored in the manifest.
  std::map<std::string, std::string> made_by;
  // If set, only these shards of the output are written, which ascend, as parts of a job that was
  // prepared with the output and these options; parts that are finished are not written again. Only
  // for selections of all records of the input in their order. Each shard of the input that no task
  // uses completely is compared with its index by the task that uses its first record.
  SharedJob* job = nullptr;
  std::vector<uint64_t> only_shards;
  // If set, incremented as records are written, for progress.
  std::atomic<uint64_t>* records_written = nullptr;
  // If set, incremented by the records of parts that are finished and not written again.
  std::atomic<uint64_t>* records_taken_over = nullptr;
};

// Writes the selected records of `input`. `ends` are the positions in the selection at which the
// shards of `output` end; there are `output.count` of them, and the last one is the selection's
// count.
//
// Bytes are copied if all records are kept in order, either from raw shards to raw ones or as whole
// shards of the requested compression, and the input's manifests describe them. Otherwise records
// are read, both CRCs are checked, and the records are encoded again. The content of a record never
// changes. The files depend only on input, selection and options, not on `threads`.
//
// No index is trusted. If a raw shard is used completely, the start and end of every frame are
// checked against the index, and the digest of all records is compared. If only parts of a shard
// are used, or if it is compressed, its index is compared with the shard first, unless it was built
// from it.
//
// Returns the manifest; with `job`, one that has only the shards that were written.
//
// Errors: those of DatasetWriter and SharedJob. DataLoss: damage, or an index that does not match
// its shard; the message names file, record and byte. After an error, no incomplete dataset
// remains.
absl::StatusOr<Manifest> Reshard(const ReshardInput& input, const RecordSelection& selection,
                                 const std::vector<uint64_t>& ends, const OutputSpec& output,
                                 const ReshardOptions& options);

// Returns the ends of `shards` shards for `count` records, whose sizes differ by at most one.
std::vector<uint64_t> EvenEnds(uint64_t count, uint64_t shards);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_RESHARD_RESHARD_H_
