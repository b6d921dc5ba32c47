// Shares reading among readers of one process that read the same order and take different records
// of it: what they have in common is read once.

#ifndef SHARDFEED_READER_RUN_SHARED_RUN_H_
#define SHARDFEED_READER_RUN_SHARED_RUN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "reader/order/order.h"
#include "reader/order/place.h"
#include "reader/run/run.h"
#include "reader/shards/selection.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// From now on, about `readers` readers of this process read each order; up to 1 (the default): they
// read independently. Thread-safe.
void ShareReads(uint64_t readers);

// One reader's part of a run that reads for several. What the others have not taken yet is kept
// within the budget of all of them. A reader that falls further behind, or fails in any way, is
// dropped: it continues alone from where it is. So no reader ever waits for another one, and each
// gets the records, and the errors, that it would get alone. Next returns Aborted for it.
class SharedRun : public ReadRun {
 public:
  // Joins the run for `order_text`, or starts it; the other arguments are those of ReadRun::Start.
  // Null: nothing is shared, or the ranks read different bytes, or the run is not near `position`.
  static std::unique_ptr<SharedRun> Join(const std::string& order_text,
                                         std::shared_ptr<const ShardTable> table,
                                         const ReaderOptions& options, const Selection& selection,
                                         std::shared_ptr<const Order> order, const ReadPlace& place,
                                         uint64_t position);
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RUN_SHARED_RUN_H_
