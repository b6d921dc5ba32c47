// Computes how many elements a chain delivers.

#ifndef SHARDFEED_PIPELINE_PLAN_LENGTH_H_
#define SHARDFEED_PIPELINE_PLAN_LENGTH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "pipeline/plan/step.h"

namespace shardfeed {

// The exact length; of rows that are packed by a plan, that of the first epochs. Waits for the
// indexes of shards if all records are read. Errors: see ShardTable::Open.
absl::StatusOr<Length> LengthOf(const Step& step);

// The number of records per epoch of the shards that a chain with one source reads; 0 if it reads
// none. Waits as LengthOf does.
absl::StatusOr<uint64_t> EpochRecords(const Step& step);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_PLAN_LENGTH_H_
