// The order of an epoch as a function: which record comes at which position, and back.
//
// An order speaks of items 0 .. size() - 1: the selected records in their own order (Selection).
// The sequence of an epoch is the same for any number of ranks; rank r of W delivers the positions
// p with p mod W = r.

#ifndef SHARDFEED_READER_ORDER_H_
#define SHARDFEED_READER_ORDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Items that are best read together, for they come within one window; and the least and the
// greatest position that any of them has.
struct OrderPiece {
  uint64_t begin;
  uint64_t end;
  uint64_t min_position;
  uint64_t max_position;
};

// Immutable; thread safe. Epochs are numbered from 0; positions, like items, run from 0 to
// size() - 1.
class Order {
 public:
  // `shard_begin` holds the first item of each shard and, last, the number of items; `mean_bytes`
  // is the mean size of a frame. InvalidArgument: a length of zero, or a lane count of zero.
  static absl::StatusOr<std::shared_ptr<const Order>> Make(OrderSpec spec,
                                                           std::vector<uint64_t> shard_begin,
                                                           uint64_t mean_bytes);
  virtual ~Order() = default;

  uint64_t size() const { return size_; }
  // With the defaults filled in.
  const OrderSpec& spec() const { return spec_; }
  // Everything that the order depends on but the data: "shuffle(seed=1, window=2430, ...)".
  std::string Describe() const;

  // Each below 100 ns, whatever the size. The items at positions are a permutation.
  virtual uint64_t ItemAt(uint64_t epoch, uint64_t position) const = 0;
  virtual uint64_t PositionOf(uint64_t epoch, uint64_t item) const = 0;
  // The items at position, position + stride ...; all below size(). Cheaper than ItemAt for each.
  virtual void Fill(uint64_t epoch, uint64_t position, uint64_t stride,
                    absl::Span<uint64_t> items) const = 0;
  // The piece that `item` belongs to. Pieces of one epoch do not overlap.
  virtual OrderPiece PieceOf(uint64_t epoch, uint64_t item) const = 0;

  // Upper bound of the positions that lie between the first and the last record of a piece: what
  // has to stay in memory, in records, when pieces are read whole.
  virtual uint64_t span() const = 0;

 protected:
  Order(OrderSpec spec, uint64_t size) : spec_(spec), size_(size) {}

  const OrderSpec spec_;
  const uint64_t size_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_H_
