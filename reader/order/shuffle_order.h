// The orders of a shuffle: within a window, and the exact permutation. docs/order.md describes
// them.

#ifndef SHARDFEED_READER_ORDER_SHUFFLE_ORDER_H_
#define SHARDFEED_READER_ORDER_SHUFFLE_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "reader/order/order.h"

namespace shardfeed {

// Consecutive positions of a lane: items[i] has the position `first` + i * lanes.
struct OrderStretch {
  uint64_t first = 0;
  std::vector<uint64_t> items;
};

// An order of which a lane's part of the window is permuted at a time.
class WindowedOrder : public Order {
 public:
  // The stretch that has a position. Takes about 20 ns for each of its items.
  virtual void GetStretch(uint64_t epoch, uint64_t position, OrderStretch* stretch) const = 0;

 protected:
  using Order::Order;
};

// A shuffle of `size` items, with `spec` as completed by Order::Make.
std::shared_ptr<const WindowedOrder> MakeShuffleOrder(OrderSpec spec, uint64_t size);
// An exact shuffle: any record may have any position.
std::shared_ptr<const Order> MakeExactShuffleOrder(OrderSpec spec, uint64_t size);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_SHUFFLE_ORDER_H_
