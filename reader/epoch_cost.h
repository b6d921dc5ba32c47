// What reading an epoch asks of a store.

#ifndef SHARDFEED_READER_EPOCH_COST_H_
#define SHARDFEED_READER_EPOCH_COST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "reader/reader.h"

namespace shardfeed {

struct EpochCost {
  uint64_t requests = 0;
  uint64_t bytes = 0;  // bytes of files
  // Extrapolated from the first records.
  bool estimated = false;
};

// Plans the first epoch of the reader's rank, as it is read from a store. Reads only indexes. Plans
// at most `most_records` and extrapolates. Errors: those of ShardTable::Index.
absl::StatusOr<EpochCost> PlanEpoch(const Reader& reader, uint64_t most_records = 2'000'000);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_EPOCH_COST_H_
