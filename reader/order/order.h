// The order of an epoch as a function: which record has which position, and vice versa.
//
// An order is defined on items 0 .. size() - 1: the selected records in their own order
// (Selection). Only a mixture (mix_order.h) may leave out some, and have others several times: then
// they have further items, as Selection counts them. The sequence of an epoch is the same for any
// number of ranks; rank r of W delivers the positions p with p mod W = r.

#ifndef SHARDFEED_READER_ORDER_ORDER_H_
#define SHARDFEED_READER_ORDER_ORDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Gaps between needed records that are smaller than this are read too.
inline constexpr uint64_t kMergeGapBytes = 32 << 10;

// Items that are best read together, because they are within one window, and bounds of the
// positions that they have.
struct OrderPiece {
  uint64_t begin;
  uint64_t end;
  uint64_t min_position;
  uint64_t max_position;
  // All positions are congruent modulo this number.
  uint64_t lanes = 1;
  // Whether each item has a position in the epoch.
  bool whole = true;
};

class Order;

// The items of positions that are asked for one after the other: keeps what these have in common.
// Not thread-safe. Must not outlive its order.
class OrderCursor {
 public:
  explicit OrderCursor(const Order& order) : order_(order) {}
  virtual ~OrderCursor() = default;

  // As Order::Fill.
  virtual void Fill(uint64_t epoch, uint64_t position, uint64_t stride, absl::Span<uint64_t> items);

 private:
  const Order& order_;
};

// Immutable and thread-safe. Epochs are numbered from 0; positions and items run from 0 to size() -
// 1.
class Order {
 public:
  // `shard_begin` holds the first item of each shard and, at its end, the number of items;
  // `mean_bytes` is the mean size of a frame. So many neighbors as `together` are best read
  // together: pieces begin anew with each shard, and chunks whose size the spec does not tell have
  // a multiple of it, in as few lanes as they need. InvalidArgument: a length or a lane count is 0.
  static absl::StatusOr<std::shared_ptr<const Order>> Make(OrderSpec spec,
                                                           std::vector<uint64_t> shard_begin,
                                                           uint64_t mean_bytes,
                                                           uint64_t together = 1);
  virtual ~Order() = default;

  uint64_t size() const { return size_; }
  // The spec with all defaults filled in.
  const OrderSpec& spec() const { return spec_; }
  // Everything that the order depends on, except the data: "shuffle(seed=1, window=2430, ...)".
  virtual std::string Describe() const;

  static constexpr uint64_t kNowhere = UINT64_MAX;
  // Each takes less than 100 ns, whatever the size. The items by position are a permutation; an
  // item that a mixture leaves out of an epoch is kNowhere.
  virtual uint64_t ItemAt(uint64_t epoch, uint64_t position) const = 0;
  virtual uint64_t PositionOf(uint64_t epoch, uint64_t item) const = 0;
  // The items at position, position + stride ..., all below size(). Cheaper than ItemAt for each.
  virtual void Fill(uint64_t epoch, uint64_t position, uint64_t stride,
                    absl::Span<uint64_t> items) const = 0;
  // Worthwhile where one rank's positions are asked for to the end of an epoch.
  virtual std::unique_ptr<OrderCursor> MakeCursor() const {
    return std::make_unique<OrderCursor>(*this);
  }
  // The piece that `item` belongs to. The pieces of an epoch do not overlap.
  virtual OrderPiece PieceOf(uint64_t epoch, uint64_t item) const = 0;
  // The number that the item has in the next epoch, if its piece goes on there; otherwise kNowhere.
  virtual uint64_t ItemInNext(uint64_t /*epoch*/, uint64_t /*item*/) const { return kNowhere; }

  // Upper bound for the distance between the first and the last position of a piece: the number of
  // records to hold in memory if pieces are read whole.
  virtual uint64_t span() const = 0;
  // The bytes that one of `world` ranks holds then, if records have `mean_bytes`. Where ranks share
  // lanes, each reads the small records of the others, too.
  virtual uint64_t HeldBytes(uint64_t world, uint64_t mean_bytes) const;

 protected:
  Order(OrderSpec spec, uint64_t size) : spec_(std::move(spec)), size_(size) {}

  const OrderSpec spec_;
  const uint64_t size_;
};

inline void OrderCursor::Fill(uint64_t epoch, uint64_t position, uint64_t stride,
                              absl::Span<uint64_t> items) {
  order_.Fill(epoch, position, stride, items);
}

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_ORDER_H_
