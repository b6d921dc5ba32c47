// Packing that is planned from lengths: which parts of which records fill each row of an epoch.
//
// A row has room for a fixed number of elements (tokens). The indexes say how many each record has
// (docs/index.md), so the rows of an epoch are a function of its order: they are known before
// anything is read, and are the same for any number of ranks. docs/packing.md has the definition.

#ifndef SHARDFEED_READER_PLAN_PACK_PLAN_H_
#define SHARDFEED_READER_PLAN_PACK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "reader/order/order.h"
#include "reader/plan/pack_rows.h"
#include "reader/shards/selection.h"
#include "reader/shards/shard_table.h"
#include "shard/index/length_column.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// The window of `spec`, with the default filled in, for records of `mean_bytes`.
uint64_t PackWindowOf(const PackSpec& spec, uint64_t mean_bytes);

// Immutable, except for a cache, and thread-safe.
class PackPlan {
 public:
  // A place is the number of a window, how many rows of a group (RowGroup) earlier windows have,
  // and the number of a part in the window. With the second, a window can be made without those
  // before it.
  static constexpr int kPartBits = 22;   // a window has at most 2^20 sequences, and pieces of them
  static constexpr int kGroupBits = 16;  // an order has at most 2^16 lanes
  // ReadPlace::position is less than 2^62.
  static constexpr uint64_t kMostWindows = uint64_t{1} << (61 - kPartBits - kGroupBits);
  static constexpr uint64_t kMostParts = uint64_t{1} << kPartBits;
  static constexpr uint64_t kMostGroup = uint64_t{1} << kGroupBits;
  static uint64_t WindowOf(uint64_t place) { return place >> (kPartBits + kGroupBits); }
  static uint64_t PartOf(uint64_t place) { return place % kMostParts; }

  // Opens the indexes of all shards, which stay in memory.
  //
  // InvalidArgument: a size is out of range, or a record is longer than a row and `spec` refuses
  // that; the message names it. FailedPrecondition: an index does not have the lengths.
  static absl::StatusOr<std::shared_ptr<const PackPlan>> Make(
      std::shared_ptr<const ShardTable> table, const Selection& selection,
      std::shared_ptr<const Order> order, PackSpec spec);

  const PackSpec& spec() const { return spec_; }
  // Number of records of a window; the last window may have fewer.
  uint64_t window_records() const { return window_; }
  uint64_t num_windows() const { return num_windows_; }
  // The number of elements of an item's sequence.
  uint64_t LengthOf(uint64_t item) const;
  // The same with the separator; 0 stays 0.
  uint64_t SequenceOf(uint64_t length) const { return length + (spec_.separated && length > 0); }
  // Whether records of this length are not left out.
  bool IsKept(uint64_t length) const {
    return spec_.min_length <= length && length <= spec_.max_length;
  }
  // How many records of an epoch are left out because of their lengths.
  uint64_t CountLeftOut(uint64_t epoch) const;

  // The place of the first part of a window that `rows_before` rows of its epoch precede; those of
  // its other parts follow.
  uint64_t PlaceOf(uint64_t window, uint64_t rows_before) const {
    return (window << kGroupBits | rows_before % group_) << kPartBits;
  }
  // The window that has a place. ResourceExhausted: there are more than 2^20 parts.
  absl::StatusOr<std::shared_ptr<const PackedWindow>> Window(uint64_t epoch, uint64_t place) const;
  // The place of the first part of the window that follows the one that has `place`, whose rows are
  // `rows`.
  uint64_t PlaceBehind(uint64_t place, const PackedWindow& rows) const {
    return PlaceOf(WindowOf(place) + 1, (place >> kPartBits) % kMostGroup + rows.rows());
  }
  // The part at a place that a row of the epoch has. OutOfRange: there is none.
  absl::StatusOr<PackedPart> PartAt(uint64_t epoch, uint64_t place) const;
  // Calls `visit` for each window of an epoch, concurrently on all processors. Errors: as Window,
  // and those of `visit`. Cancelled: `stop` was requested.
  absl::Status ForEachWindow(
      uint64_t epoch, std::stop_token stop,
      const std::function<absl::Status(uint64_t window, const PackedWindow& rows)>& visit) const;
  // How many rows of an epoch precede each window, and how many there are, from all its lengths.
  // Errors: as Window. Cancelled: `stop` was requested.
  absl::StatusOr<std::vector<uint64_t>> RowsBefore(uint64_t epoch, std::stop_token stop) const;
  // The number of rows of an epoch. Errors: as Window.
  absl::StatusOr<uint64_t> CountRows(uint64_t epoch) const;

 private:
  struct ShardLengths {
    std::shared_ptr<const ShardIndex> index;
    LengthColumn lengths;
  };

  PackPlan(std::shared_ptr<const ShardTable> table, Selection selection,
           std::shared_ptr<const Order> order, PackSpec spec)
      : table_(std::move(table)),
        selection_(std::move(selection)),
        order_(std::move(order)),
        spec_(std::move(spec)) {}

  absl::Status OpenLengths();
  absl::StatusOr<PackedWindow> MakeWindow(uint64_t epoch, uint64_t place) const;

  const std::shared_ptr<const ShardTable> table_;
  const Selection selection_;
  const std::shared_ptr<const Order> order_;
  const PackSpec spec_;
  uint64_t lanes_ = 1;
  uint64_t group_ = 1;
  uint64_t window_ = 0;
  uint64_t num_windows_ = 0;
  std::vector<ShardLengths> shards_;

  struct Kept {
    uint64_t epoch;
    uint64_t first;  // place of its first part
    std::shared_ptr<const PackedWindow> rows;
  };
  mutable Mutex mutex_;
  mutable std::deque<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

// The rows of one rank, in order, from a place of an epoch on: rows rank, rank + world ... from
// there, up to the end of the last whole round of `batch` rows per rank, so that all ranks have the
// same number. Not thread-safe.
class RankRows {
 public:
  struct Row {
    std::shared_ptr<const PackedWindow> window;
    size_t number = 0;   // number in the window
    uint64_t place = 0;  // place of its first part

    absl::Span<const PackedPart> parts() const { return window->row(number); }
  };

  // Begins where all ranks together have delivered `phase` rows of the round at `place`.
  // InvalidArgument: no row begins there.
  static absl::StatusOr<RankRows> From(std::shared_ptr<const PackPlan> plan, uint64_t epoch,
                                       uint64_t place, uint64_t phase, uint64_t rank,
                                       uint64_t world, uint64_t batch);

  // The next row; nullopt at the end of the epoch. Errors: as PackPlan::Window.
  absl::StatusOr<std::optional<Row>> Next();
  // Where all ranks together are if each has taken as many rows as this one.
  uint64_t place() const;
  uint64_t phase() const { return (phase_ + passed_) % round_; }

  // This rank's items in the windows `first` to `last` that are not forgotten, as far as they are
  // in [begin, end): with repetitions, ascending. Errors: as PackPlan::Window.
  absl::StatusOr<std::vector<uint64_t>> Items(uint64_t first, uint64_t last, uint64_t begin,
                                              uint64_t end);
  // Forgets the windows before the one that has the row which Next returned last.
  void DropPassed();

 private:
  // A window that has been read.
  struct Known {
    uint64_t place = 0;  // place of its first part
    std::shared_ptr<const PackedWindow> rows;
    // Number of its first row, counted from the row at which this began.
    int64_t first = 0;
    // The rank's items in it, ascending; computed when they are needed.
    std::optional<std::vector<uint64_t>> items;

    uint64_t number() const { return PackPlan::WindowOf(place); }
    int64_t end() const { return first + static_cast<int64_t>(rows->rows()); }
  };

  RankRows(std::shared_ptr<const PackPlan> plan, uint64_t epoch, uint64_t phase, uint64_t rank,
           uint64_t world, uint64_t batch)
      : plan_(std::move(plan)),
        epoch_(epoch),
        phase_(phase),
        rank_(rank),
        world_(world),
        round_(batch * world) {}

  // Reads the next window. Returns false if there is none.
  absl::StatusOr<bool> LookAhead();
  // The known window that has this row; null: the row follows all known windows.
  const Known* Find(int64_t row) const;
  void FindItems(Known* known) const;

  std::shared_ptr<const PackPlan> plan_;
  uint64_t epoch_;
  uint64_t phase_;
  uint64_t rank_;
  uint64_t world_;
  uint64_t round_;
  uint64_t next_window_ = 0;  // place of the first window that has not been read
  std::deque<Known> known_;
  int64_t known_end_ = 0;  // number of rows up to there
  uint64_t passed_ = 0;    // rows of all ranks that have been taken
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_PLAN_PACK_PLAN_H_
