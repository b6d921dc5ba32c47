// What plan and replay say about rows that are packed by lengths.

#ifndef SHARDFEED_CLI_REPORTS_PACKED_ROWS_H_
#define SHARDFEED_CLI_REPORTS_PACKED_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "reader/plan/pack_plan.h"
#include "reader/reader.h"

namespace shardfeed {

struct PackFlags {
  uint64_t length = 0;
  std::string lengths;
  std::string how = "best_fit";
  std::string longer = "refuse";
  uint64_t window = 0;
  uint64_t min_length = 0;
  uint64_t max_length = UINT64_MAX;
  bool separated = false;
  std::string cost = "linear";
  bool steps = false;
  uint64_t steps_before = 0;
  uint64_t steps_after = 0;
};

// Declares these options.
void AddPackFlags(CLI::App& command, PackFlags& flags);

// Nullopt: records are not to be packed. InvalidArgument: a flag requires another one.
absl::StatusOr<std::optional<PackSpec>> PackSpecOf(const PackFlags& flags);

// The rows of an epoch as ranks share them.
struct PackedEpoch {
  uint64_t rows = 0;
  uint64_t elements = 0;
  uint64_t left_out = 0;  // records, because of their lengths
  uint64_t batches_per_rank = 0;
  uint64_t left_over = 0;  // rows of the incomplete last round
  // The cost (PackSpec::Cost) of the most expensive rank of a step divided by the mean cost of its
  // ranks; the mean over all steps.
  double balance = 1;

  // The share of the rows that is not padding.
  double Full(uint64_t length) const {
    return rows == 0 ? 1 : static_cast<double>(elements) / static_cast<double>(rows * length);
  }
};

// `reader` has a plan. Errors: as PackPlan::Window; Cancelled: the user has interrupted.
absl::StatusOr<PackedEpoch> DescribePackedEpoch(const Reader& reader);

// A part of a record in a row.
struct PlacedPart {
  uint64_t row = 0;  // in the epoch, over all ranks
  PackedPart part;
  // Whether a batch has the row. The remaining rows at the end of the epoch are dropped.
  bool delivered = true;
};

// The parts of the rows of batch `step` of the reader's rank. OutOfRange: there is no such batch.
// Other errors: as DescribePackedEpoch.
absl::StatusOr<std::vector<PlacedPart>> PartsOfBatch(const Reader& reader, uint64_t epoch,
                                                     uint64_t step);

// The parts of an item, and the rows that have them; none if it has no elements. Errors: as
// DescribePackedEpoch.
absl::StatusOr<std::vector<PlacedPart>> PartsOfItem(const Reader& reader, uint64_t epoch,
                                                    uint64_t item);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_PACKED_ROWS_H_
