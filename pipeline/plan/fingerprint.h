// Numbers that tell chains and their data from one another.

#ifndef SHARDFEED_PIPELINE_PLAN_FINGERPRINT_H_
#define SHARDFEED_PIPELINE_PLAN_FINGERPRINT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/plan/step.h"

namespace shardfeed {

// What a fingerprint covers, each more than the one before. None knows what functions of the user's
// do, but by the version that they were given.
enum class Coverage {
  // The sequence of elements that all ranks share. Not how it is shared out and cut to batches: of
  // a batch at the chain's end, and of a reader's batch, the size is left out. For states.
  kSequence,
  // How it is cut to batches as well.
  kElements,
  // The rank's part as well: for what one rank has stored.
  kRank,
};

// The same on all machines, and in all versions that have Identity::kVersion. Waits for the indexes
// of shards; errors: as ShardTable::Open.
absl::StatusOr<uint64_t> FingerprintOf(const Step& step, Coverage coverage);

// Whether FingerprintOf would not wait.
bool IndexesMade(const Step& step);

// Whether the fingerprint of a chain's shards is that of their records, as far as they were written
// to after the file at `path`. Errors: as ShardTable::CheckWrittenSince.
absl::Status CheckShardsSince(const Step& step, const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_FINGERPRINT_H_
