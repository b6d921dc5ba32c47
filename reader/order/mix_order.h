// The order of a mixture: records of several sources, each in an order of its own, by a schedule of
// weights. docs/mixtures.md has the definition.

#ifndef SHARDFEED_READER_ORDER_MIX_ORDER_H_
#define SHARDFEED_READER_ORDER_MIX_ORDER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "reader/order/divider.h"
#include "reader/order/mix_schedule.h"
#include "reader/order/order.h"
#include "reader/order/shuffle_order.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// What an order needs to know about a source.
struct MixPart {
  uint64_t items = 0;
  uint64_t mean_bytes = 0;   // mean size of a frame
  uint64_t fingerprint = 0;  // fingerprint of its records
};

// Epochs follow each other without a gap: each source continues where it was, and begins another
// pass of its own when it ends. The items of a record's passes in an epoch follow each other by the
// number of all items (see Selection), beginning with the first pass that has any.
class MixOrder : public Order {
 public:
  // `parts` are those of spec.mixture->sources. InvalidArgument: the mixture is not valid.
  static absl::StatusOr<std::shared_ptr<const MixOrder>> Make(OrderSpec spec,
                                                              std::vector<MixPart> parts);

  std::string Describe() const override;
  // What the sequence before a position depends on: a text, and a number for the data. Weights that
  // begin there or later, and sources without weight so far, do not matter. At kWholeMix in epoch
  // 0, everything does.
  static constexpr uint64_t kWholeMix = UINT64_MAX / 2;
  std::string DescribeBefore(uint64_t epoch, uint64_t position) const;
  uint64_t DataBefore(uint64_t epoch, uint64_t position) const;

  // The items of an item's record that have a position in the epoch: one for each pass that
  // delivers it.
  std::vector<uint64_t> ItemsOf(uint64_t epoch, uint64_t item) const;
  // The number of a position's source.
  uint32_t SourceAt(uint64_t epoch, uint64_t position) const;
  const MixSchedule& schedule() const { return schedule_; }
  uint64_t SourceSize(uint32_t source) const { return sources_[source].items; }

  uint64_t ItemAt(uint64_t epoch, uint64_t position) const override;
  uint64_t PositionOf(uint64_t epoch, uint64_t item) const override;
  void Fill(uint64_t epoch, uint64_t position, uint64_t stride,
            absl::Span<uint64_t> items) const override;
  std::unique_ptr<OrderCursor> MakeCursor() const override;
  OrderPiece PieceOf(uint64_t epoch, uint64_t item) const override;
  uint64_t ItemInNext(uint64_t epoch, uint64_t item) const override;
  uint64_t span() const override;
  // Ignores `mean_bytes`, for sources differ in it.
  uint64_t HeldBytes(uint64_t world, uint64_t mean_bytes) const override;

 private:
  struct Source {
    uint64_t begin = 0;  // its first item
    uint64_t items = 0;
    Divider lanes{1};
    uint64_t span = 0;  // 0: it has no weight
    uint64_t mean_bytes = 0;
    uint64_t identity = 0;  // identity of the data
    Divider divider{1};     // divides by the number of its items
    std::shared_ptr<const Order> order;
    const WindowedOrder* windowed = nullptr;  // `order`, if it has a window
  };
  // The first pass of each source that has a position in an epoch.
  struct Epoch {
    uint64_t epoch = 0;
    std::vector<uint64_t> first_pass;
  };
  // What the first segments depend on.
  struct Past {
    uint64_t weights = 0;
    uint64_t data = 0;
  };
  class Cursor;
  // What a position of the mixture is in its source.
  struct Turn {
    uint32_t source;
    uint64_t pass;
    uint64_t position;  // in the pass
  };
  // A record of a source.
  struct Place {
    uint32_t source;
    uint64_t pass;
    uint64_t item;  // number in the source
  };

  MixOrder(OrderSpec spec, uint64_t size, MixSchedule schedule, std::vector<Source> sources);

  std::shared_ptr<const Epoch> FindEpoch(uint64_t epoch) const;
  const Epoch& EpochOf(uint64_t epoch) const;
  Turn TurnOf(const MixSchedule::Draw& draw) const;
  // The source's item that has the turn, and the number that the mixture gives it.
  uint64_t OwnItem(const Turn& turn) const;
  uint64_t NumberOf(const Epoch& epoch, const Turn& turn, uint64_t item) const;
  uint64_t ItemIn(const Epoch& epoch, uint64_t position) const;
  Place PlaceOf(const Epoch& epoch, uint64_t item) const;
  // Bounds of the positions of a piece of a source, through all epochs.
  std::pair<uint64_t, uint64_t> ReachOf(const Place& place, const OrderPiece& own) const;
  // How many segments matter before a position that is counted through all epochs.
  size_t SegmentsBefore(uint64_t position) const;
  std::vector<Past> MakePasts() const;

  const MixSchedule schedule_;
  const std::vector<Source> sources_;
  const std::vector<Past> pasts_;  // past of the first segment, of the first two ...
  const uint64_t items_;           // items of all sources
  const Divider item_divider_;
  const uint64_t number_;  // unlike an address, never reused for another order
  mutable Mutex mutex_;
  mutable std::deque<std::shared_ptr<const Epoch>> epochs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_MIX_ORDER_H_
