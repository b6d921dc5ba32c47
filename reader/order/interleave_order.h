// The order of tf.data's interleave.

#ifndef SHARDFEED_READER_ORDER_INTERLEAVE_ORDER_H_
#define SHARDFEED_READER_ORDER_INTERLEAVE_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "reader/order/order.h"

namespace shardfeed {

// `spec` and `shard_begin` as Order::Make has checked them.
std::shared_ptr<const Order> MakeInterleaveOrder(OrderSpec spec, std::vector<uint64_t> shard_begin);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_INTERLEAVE_ORDER_H_
