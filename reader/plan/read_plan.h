// Plans which records a run reads together, and which of them make up each block.

#ifndef SHARDFEED_READER_PLAN_READ_PLAN_H_
#define SHARDFEED_READER_PLAN_READ_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "io/engine.h"
#include "reader/order/divider.h"
#include "reader/order/leftover.h"
#include "reader/order/order.h"
#include "reader/order/place.h"
#include "reader/plan/pack_plan.h"
#include "reader/plan/unit.h"
#include "reader/shards/selection.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// The approximate size of a read, and of a block that is delivered.
inline constexpr uint64_t kReadBlockBytes = 1 << 20;
// This many of the first blocks are small, so that they arrive soon.
inline constexpr uint64_t kRampBlocks = 16;
// As kMergeGapBytes, for stores, whose requests take longer: in 75 ms a connection transfers 7 MB.
inline constexpr uint64_t kRemoteReadBytes = 8 << 20;
inline constexpr uint64_t kRemoteMergeGapBytes = 1 << 20;
// The same for records that are read one by one: most of the bytes between them are not needed
// soon.
inline constexpr uint64_t kRemoteScatteredGapBytes = 128 << 10;

// Records that are read together. Those who read a unit derive from this to add their own data.
struct PlannedUnit : std::enable_shared_from_this<PlannedUnit> {
  // Either a piece of the order, items [begin, end), of which this rank delivers those in `needed`
  // (ascending; all if empty); or, if `scattered` is not empty, the items of one block, ascending.
  // What the planner looks at for each record comes first.
  uint64_t begin = 0;
  uint64_t end = 0;
  // By how much the numbers of its items are smaller in the epoch that is planned than in the one
  // whose numbers it has.
  uint64_t shift = 0;
  // Used by the planner.
  uint64_t left = 0;                 // records that no block has asked for yet
  uint64_t last_block = UINT64_MAX;  // last block that asked for any record
  std::vector<uint32_t> needed;
  std::vector<uint64_t> scattered;
  Extents extents;
  uint64_t memory = 0;  // bytes needed to read and hold it

  bool Has(uint64_t item) const { return begin <= item + shift && item + shift < end; }

  uint64_t records() const {
    if (!scattered.empty()) return scattered.size();
    return needed.empty() ? end - begin : needed.size();
  }
  // The index of `item` among the unit's records.
  uint32_t IndexOf(uint64_t item) const {
    if (!scattered.empty()) {
      return std::lower_bound(scattered.begin(), scattered.end(), item) - scattered.begin();
    }
    const auto local = static_cast<uint32_t>(item + shift - begin);
    if (needed.empty()) return local;
    return std::lower_bound(needed.begin(), needed.end(), local) - needed.begin();
  }
  // The item of a record of the unit.
  uint64_t ItemOf(uint32_t index) const {
    if (!scattered.empty()) return scattered[index];
    return begin + (needed.empty() ? index : needed[index]);
  }
};

// Consecutive records of one unit.
struct UnitSlice {
  PlannedUnit* unit;
  uint32_t first;
  uint32_t count;
};

// A range of this rank's positions: position, position + stride ... of the epoch.
struct PlannedBlock {
  uint64_t number = 0;
  uint64_t epoch = 0;
  uint64_t position = 0;
  uint64_t stride = 1;
  uint64_t place = 0;   // see ReadBlock
  uint64_t padded = 0;  // number of records at the end that are padding
  std::vector<UnitSlice> slices;
  std::vector<std::shared_ptr<PlannedUnit>> units;
  std::vector<std::shared_ptr<PlannedUnit>> new_units;  // units that no earlier block has
  uint64_t new_memory = 0;                              // memory of the new units
  // See ReadBlock.
  std::vector<PackedRow> rows;
  uint64_t next_position = 0;
  uint64_t next_phase = 0;

  // Sets what does not need the records.
  void Describe(ReadBlock* block) const {
    block->epoch = epoch;
    block->position = position;
    block->stride = stride;
    block->place = place;
    block->padded = padded;
    block->rows = rows;
    block->next_position = next_position;
    block->next_phase = next_phase;
  }
};

struct ReadPlanOptions {
  bool whole_pieces = true;  // units are pieces of the order, not single records
  // Whether the data is in the page cache. It decides from which size on a window takes long to
  // read, so that a run's first records are read one by one (kMinCachedWindowBytes,
  // kMinWindowBytes).
  bool cached = false;
  // Whether many reads share a buffer; otherwise each has whole pages of its own.
  bool shared_buffers = true;
  // Whether the data is in a store: then no record is read alone, and larger gaps are read through.
  bool remote = false;
  // Makes a unit, whose type the caller chooses.
  std::function<std::shared_ptr<PlannedUnit>()> make_unit = [] {
    return std::make_shared<PlannedUnit>();
  };
};

// Plans one block after another. A unit is introduced with the first block that needs it, and
// forgotten with the last one. The plan depends only on the arguments. Not thread-safe; reads
// nothing but indexes.
class ReadPlanner {
 public:
  // Starts at `place`, whose epoch is divided by the ranks and batches of `options`; `position` is
  // the first one to read, one of options.rank. With `pack`, which may be null, the place is one of
  // all ranks, and `position` is not used.
  ReadPlanner(std::shared_ptr<const ShardTable> table, const ReaderOptions& options,
              const Selection& selection, std::shared_ptr<const Order> order,
              std::shared_ptr<const PackPlan> pack, ReadPlanOptions plan_options,
              const ReadPlace& place, uint64_t position);

  // Plans the next block in `*block`, which must be new. Returns false after the last epoch. Errors
  // are those of ShardTable::Index.
  absl::StatusOr<bool> Next(PlannedBlock* block);

  // Whether the extents of a unit share a buffer.
  bool SharesBuffer(const PlannedUnit& unit) const {
    return unit.extents.size() > 1 && plan_options_.shared_buffers;
  }

 private:
  // The last two units that were found in a chunk: one may have its beginning, and one its end.
  struct RecentUnits {
    struct Known {
      uint64_t begin = 0;
      uint64_t end = 0;
      PlannedUnit* unit = nullptr;
    };
    Known known[2];
  };

  uint64_t CellBytes(size_t shard) const;
  uint64_t merge_gap_bytes() const {
    return plan_options_.remote ? kRemoteMergeGapBytes : kMergeGapBytes;
  }
  absl::StatusOr<OrderPiece> PieceOf(uint64_t item) const;
  absl::StatusOr<std::shared_ptr<PlannedUnit>> MakeUnit(uint64_t item);
  absl::StatusOr<std::shared_ptr<PlannedUnit>> MakeScatteredUnit(absl::Span<const uint64_t> items);
  bool InOneCell(uint64_t before, uint64_t item) const;
  template <typename ItemAt>
  absl::Status AddExtentsOf(size_t n, uint64_t gap_bytes, const ItemAt& item_at,
                            PlannedUnit* unit) const;
  absl::Status AddExtents(uint64_t begin, uint64_t end, PlannedUnit* unit) const;
  void CountMemory(PlannedUnit* unit) const;
  RecentUnits& RecentOf(uint64_t chunk) {
    return recent_units_[chunk & (recent_units_.size() - 1)];
  }
  // The unit of an item, if it is one of the recent ones.
  PlannedUnit* FindRecent(uint64_t item) {
    for (const RecentUnits::Known& known : RecentOf(chunk_divider_.Divide(item).quotient).known) {
      if (known.begin <= item && item < known.end) return known.unit;
    }
    return nullptr;
  }
  PlannedUnit* FindUnit(uint64_t item);
  void InsertUnit(const std::shared_ptr<PlannedUnit>& unit);
  void EraseUnit(PlannedUnit* unit);
  void ShareEpoch(const ReadPlace& place);
  bool GoToNextEpoch();
  void ForgetUnits();
  void KeepUnits(uint64_t residue_before);
  absl::StatusOr<bool> NextOfOrder(PlannedBlock* block);
  absl::StatusOr<bool> NextRows(PlannedBlock* block);
  absl::Status FindNeeded(const OrderPiece& piece, PlannedUnit* unit);
  absl::Status AddFromPieces(uint64_t count, PlannedBlock* block);
  absl::StatusOr<uint64_t> AddSingly(absl::Span<const uint64_t> items, bool may_cut,
                                     PlannedBlock* block);

  const std::shared_ptr<const ShardTable> table_;
  const ReaderOptions options_;
  const Selection selection_;
  const std::shared_ptr<const Order> order_;
  const ReadPlanOptions plan_options_;
  const ReadPlace whole_epoch_;  // how an epoch is divided from its first position on
  const Divider chunk_divider_;
  const uint64_t first_epoch_;
  const bool decodes_others_;  // some records cannot be read without decoding others
  uint64_t block_records_ = 0;
  bool ramp_ = false;  // the first blocks are smaller
  // Blocks of records that are read one by one have no more, so that several fit the budget.
  uint64_t scattered_records_ = UINT64_MAX;

  uint64_t epoch_;
  uint64_t position_;            // position as counted in ReadPlace
  uint64_t leftover_until_ = 0;  // earlier positions belong to options_.leftover, in its epoch
  // Positions from here on are not delivered; beyond the order's size they are padding.
  uint64_t end_ = 0;
  uint64_t residue_ = 0;  // remainder of this rank's positions modulo the number of ranks
  uint64_t next_block_ = 0;
  size_t last_units_ = 0;                      // number of units of the last block
  const std::unique_ptr<OrderCursor> cursor_;  // cursor of order_
  std::vector<uint64_t> items_;                // items of the block that is being planned
  const std::shared_ptr<const PackPlan> pack_;
  ReadPlace pack_place_;              // where rows_ begins
  std::optional<RankRows> rows_;      // this rank's rows of the epoch
  std::optional<RankRows::Row> row_;  // the next one, taken from rows_
  // Units whose records have not all been planned, by the chunks that they overlap.
  std::unordered_map<uint64_t, absl::InlinedVector<std::shared_ptr<PlannedUnit>, 2>> units_;
  // The units that were found last, by the number of their chunk modulo the size, which is a power
  // of two.
  std::vector<RecentUnits> recent_units_;
  // Units whose records are not all delivered, by the last position that one of them may have;
  // after it, the unit is forgotten.
  std::multimap<uint64_t, std::shared_ptr<PlannedUnit>> cut_units_;
  // In the first epoch, blocks that end before singly_until_ have single records; pieces begin at
  // pieces_from_.
  uint64_t singly_until_ = 0;
  uint64_t pieces_from_ = 0;
};

// The number of records in the chunks of ArrayRecord shards, each of which is decoded as a whole:
// in the first one, since all but the last of a shard have as many. 1: shards are of another kind.
uint64_t RecordsDecodedTogether(const ShardTable& table);

// The memory that the window of an order takes, and whether units are whole pieces of it.
MemoryPlan PlanMemory(const ShardTable& table, const Order& order, const ReaderOptions& options);
// FailedPrecondition: the window does not fit, and the data is in a store.
absl::Status CheckMemory(const ShardTable& table, const Order& order, const MemoryPlan& memory);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_PLAN_READ_PLAN_H_
