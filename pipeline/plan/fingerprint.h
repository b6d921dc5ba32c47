// Fingerprints of chains and their data.

#ifndef SHARDFEED_PIPELINE_PLAN_FINGERPRINT_H_
#define SHARDFEED_PIPELINE_PLAN_FINGERPRINT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/plan/step.h"

namespace shardfeed {

// What a fingerprint covers; each value includes the previous ones. User functions are covered only
// by their versions.
enum class Coverage {
  // The sequence of elements that all ranks share, but not how it is divided among ranks and into
  // batches: the size of a batch at the end of the chain, and that of a reader's batch, are left
  // out. For states.
  kSequence,
  // Also how it is divided into batches.
  kElements,
  // Also the part of the rank: for data stored by one rank.
  kRank,
};

// The same on all machines, and in all versions with the same Identity::kVersion. Waits for the
// indexes of shards. Errors: see ShardTable::Open.
absl::StatusOr<uint64_t> FingerprintOf(const Step& step, Coverage coverage);

// Whether FingerprintOf would return without waiting.
bool IndexesMade(const Step& step);

// Checks that the fingerprint of a chain's shards is that of their records, if they were written to
// after the file at `path`. Errors: see ShardTable::CheckWrittenSince.
absl::Status CheckShardsSince(const Step& step, const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_FINGERPRINT_H_
