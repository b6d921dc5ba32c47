// One run of a reader: threads that plan, read and check ahead of the consumer.

#ifndef SHARDFEED_READER_RUN_RUN_H_
#define SHARDFEED_READER_RUN_RUN_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "reader/order/order.h"
#include "reader/order/place.h"
#include "reader/plan/pack_plan.h"
#include "reader/shards/selection.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Reads from one position to the end of the epochs. Not thread-safe, except stats. The destructor
// ends the threads, and waits for reads in flight.
class ReadRun {
 public:
  // Starts threads that read from `place` on, whose epoch is divided by the ranks and batches of
  // `options`; `position` is the first position to read, one of options.rank. options.budget_bytes
  // must not be 0. `pack` is the plan of options.pack; without it, null. Errors: see MakeEngine.
  static absl::StatusOr<std::unique_ptr<ReadRun>> Start(std::shared_ptr<const ShardTable> table,
                                                        const ReaderOptions& options,
                                                        const Selection& selection,
                                                        std::shared_ptr<const Order> order,
                                                        std::shared_ptr<const PackPlan> pack,
                                                        const ReadPlace& place, uint64_t position);

  virtual ~ReadRun() = default;

  // As Reader::Next; must not be called again after an error. Aborted: the reader must start
  // another run where it is (see SharedRun).
  virtual absl::Status Next(ReadBlock* block) = 0;
  virtual ReaderStats stats() const = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RUN_RUN_H_
