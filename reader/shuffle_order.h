// The orders of a shuffle: within a window, and the exact permutation. docs/order.md describes
// them.

#ifndef SHARDFEED_READER_SHUFFLE_ORDER_H_
#define SHARDFEED_READER_SHUFFLE_ORDER_H_

#include <cstdint>
#include <memory>

#include "reader/order.h"

namespace shardfeed {

// A shuffle of `size` items, with `spec` as completed by Order::Make.
std::shared_ptr<const Order> MakeShuffleOrder(OrderSpec spec, uint64_t size);
// An exact shuffle: any record may have any position.
std::shared_ptr<const Order> MakeExactShuffleOrder(OrderSpec spec, uint64_t size);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SHUFFLE_ORDER_H_
