#include "reader/epoch_cost.h"

#include <algorithm>
#include <memory>

#include "base/rounding.h"
#include "reader/plan/read_plan.h"

namespace shardfeed {

absl::StatusOr<EpochCost> PlanEpoch(const Reader& reader, uint64_t most_records) {
  ReaderOptions options = reader.options();
  options.epochs = 1;
  options.leftover = nullptr;
  ReadPlanOptions plan;
  plan.whole_pieces = reader.memory_plan().whole_chunks;
  plan.remote = true;
  ReadPlanner planner(reader.shared_table(), options, reader.selection(), reader.shared_order(),
                      reader.shared_pack(), plan, {.batch = options.batch, .world = options.world},
                      options.rank);
  EpochCost cost;
  uint64_t planned = 0;
  uint64_t read = 0;  // records of the units, some of which are delivered later
  while (planned < most_records) {
    PlannedBlock block;
    absl::StatusOr<bool> more = planner.Next(&block);
    if (!more.ok()) return more.status();
    if (!*more) return cost;
    for (const UnitSlice& slice : block.slices) planned += slice.count;
    for (const std::shared_ptr<PlannedUnit>& unit : block.new_units) {
      read += unit->records();
      for (const Extent& extent : unit->extents) {
        // What is read as a stream is read in ranges, too.
        const bool stream = extent.compressed() && extent.file_bytes == 0;
        cost.requests += stream ? CeilDivide(extent.bytes, kRemoteReadBytes) : 1;
        cost.bytes += stream ? extent.bytes : extent.file_bytes;
      }
    }
  }
  const double share = static_cast<double>(reader.records_per_epoch()) /
                       static_cast<double>(std::max<uint64_t>(1, read));
  if (share <= 1) return cost;
  cost.estimated = true;
  cost.requests = static_cast<uint64_t>(static_cast<double>(cost.requests) * share);
  cost.bytes = static_cast<uint64_t>(static_cast<double>(cost.bytes) * share);
  return cost;
}

}  // namespace shardfeed
