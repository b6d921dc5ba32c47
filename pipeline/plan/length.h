// How many elements a chain delivers.

#ifndef SHARDFEED_PIPELINE_PLAN_LENGTH_H_
#define SHARDFEED_PIPELINE_PLAN_LENGTH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "pipeline/plan/step.h"

namespace shardfeed {

// Exact. Waits for the indexes of shards where all records are read; errors: as ShardTable::Open.
absl::StatusOr<Length> LengthOf(const Step& step);

// Records in an epoch of the shards that a chain of one source reads; 0: it reads none. Waits as
// LengthOf.
absl::StatusOr<uint64_t> EpochRecords(const Step& step);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_LENGTH_H_
