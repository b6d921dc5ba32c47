#include "reader/order/order.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "fmt/format.h"
#include "reader/order/interleave_order.h"
#include "reader/order/shuffle_order.h"

namespace shardfeed {
namespace {

constexpr uint64_t kDefaultChunkBytes = 1 << 20;
constexpr uint64_t kDefaultWindowBytes = 256 << 20;
constexpr uint64_t kMaxLanes = 1 << 16;
constexpr uint64_t kMaxRecords = uint64_t{1} << 40;

class SequentialOrder : public Order {
 public:
  // `begins` has the items at which pieces begin anew, and the number of items.
  SequentialOrder(OrderSpec spec, std::vector<uint64_t> begins)
      : Order(std::move(spec), begins.back()), begins_(std::move(begins)) {}

  uint64_t ItemAt(uint64_t, uint64_t position) const override { return position; }
  uint64_t PositionOf(uint64_t, uint64_t item) const override { return item; }
  void Fill(uint64_t, uint64_t position, uint64_t stride,
            absl::Span<uint64_t> items) const override {
    for (uint64_t& item : items) item = std::exchange(position, position + stride);
  }
  OrderPiece PieceOf(uint64_t, uint64_t item) const override {
    const auto behind = std::upper_bound(begins_.begin(), begins_.end() - 1, item);
    const uint64_t begin = item - (item - behind[-1]) % spec_.chunk;
    const uint64_t end = std::min(begin + spec_.chunk, *behind);
    return {begin, end, begin, end - 1};
  }
  uint64_t span() const override { return spec_.chunk; }

 private:
  const std::vector<uint64_t> begins_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Order>> Order::Make(OrderSpec spec,
                                                         std::vector<uint64_t> shard_begin,
                                                         uint64_t mean_bytes, uint64_t together) {
  const uint64_t size = shard_begin.back();
  mean_bytes = std::max<uint64_t>(mean_bytes, 1);
  if (spec.cycle == 0 || spec.block == 0) {
    return absl::InvalidArgumentError("cycle and block must be at least 1");
  }
  if (spec.lanes == 0 || spec.lanes > kMaxLanes) {
    return absl::InvalidArgumentError(
        fmt::format("lanes must be from 1 to {}, got {}", kMaxLanes, spec.lanes));
  }
  if (size > kMaxRecords) {
    return absl::InvalidArgumentError(
        fmt::format("an order must have at most {} records, got {}", kMaxRecords, size));
  }
  const bool any_chunk = spec.chunk == 0;
  if (any_chunk) {
    spec.chunk = RoundUp(std::max<uint64_t>(1, kDefaultChunkBytes / mean_bytes), together);
  }
  spec.chunk = std::clamp<uint64_t>(spec.chunk, 1, std::max<uint64_t>(size, 1));
  switch (spec.kind) {
    case OrderSpec::Kind::kSequential:
      if (together == 1) shard_begin = {0, size};
      return std::make_shared<SequentialOrder>(spec, std::move(shard_begin));
    case OrderSpec::Kind::kInterleave:
      return MakeInterleaveOrder(spec, std::move(shard_begin));
    case OrderSpec::Kind::kShuffle:
      break;
  }
  const bool by_default = spec.window == 0;
  if (by_default) spec.window = std::max<uint64_t>(1, kDefaultWindowBytes / mean_bytes);
  if (spec.window >= size && !by_default) {
    spec.window = OrderSpec::kAll;
    return MakeExactShuffleOrder(spec, size);
  }
  // A lane's part of the window consists of whole chunks, at least one.
  spec.window = std::min(spec.window, std::max<uint64_t>(size, 1));
  if (any_chunk && together > 1) {
    spec.lanes = std::clamp<uint64_t>(spec.window / spec.chunk, 1, spec.lanes);
  }
  const uint64_t stretch = std::max<uint64_t>(1, spec.window / spec.lanes);
  spec.chunk = std::min(spec.chunk, stretch);
  spec.window = stretch / spec.chunk * spec.chunk * spec.lanes;
  return MakeShuffleOrder(spec, size);
}

uint64_t Order::HeldBytes(uint64_t world, uint64_t mean_bytes) const {
  const bool lanes = spec_.kind == OrderSpec::Kind::kShuffle && spec_.window != OrderSpec::kAll;
  const bool divided = (lanes && spec_.lanes % world == 0) || mean_bytes > kMergeGapBytes;
  return (divided ? span() / world + 1 : span()) * mean_bytes;
}

std::string Order::Describe() const {
  switch (spec_.kind) {
    case OrderSpec::Kind::kSequential:
      return "sequential";
    case OrderSpec::Kind::kInterleave:
      return fmt::format("interleave(cycle_length={}, block_length={})", spec_.cycle, spec_.block);
    case OrderSpec::Kind::kShuffle:
      break;
  }
  if (spec_.window == OrderSpec::kAll)
    return fmt::format("shuffle(seed={}, window=all)", spec_.seed);
  return fmt::format("shuffle(seed={}, window={}, chunk={}, lanes={})", spec_.seed, spec_.window,
                     spec_.chunk, spec_.lanes);
}

}  // namespace shardfeed
