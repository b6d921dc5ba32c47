// One run of a reader: threads that plan, read and check ahead of the consumer.

#ifndef SHARDFEED_READER_RUN_H_
#define SHARDFEED_READER_RUN_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "reader/order.h"
#include "reader/place.h"
#include "reader/selection.h"
#include "reader/shard_table.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// From one position to the end of the epochs. Not thread safe: one thread calls Next; stats may be
// called from any. The destructor ends its threads, and waits for reads that are under way.
class ReadRun {
 public:
  // Starts threads that read from `place` on, whose epoch is shared by the ranks and batches of
  // `options`; `position` is the first that is read, one of options.rank. options.budget_bytes is
  // not 0. Errors as MakeEngine.
  static absl::StatusOr<std::unique_ptr<ReadRun>> Start(std::shared_ptr<const ShardTable> table,
                                                        const ReaderOptions& options,
                                                        const Selection& selection,
                                                        std::shared_ptr<const Order> order,
                                                        const ReadPlace& place, uint64_t position);

  virtual ~ReadRun() = default;

  // As Reader::Next; not to be called again after an error.
  virtual absl::Status Next(ReadBlock* block) = 0;
  virtual ReaderStats stats() const = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RUN_H_
