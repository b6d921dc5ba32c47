#include "reader/plan/read_plan.h"

#include <bit>
#include <utility>

#include "base/rounding.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "reader/shards/io_choice.h"
#include "shard/index/index.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxBlockRecords = 4096;
constexpr uint64_t kFirstBlockRecords = 16;
// About this many of a run's first records are read one by one, because the first block of a
// shuffle has records of nearly every piece in the window. That applies only to windows that take
// long to read: those larger than kMinCachedWindowBytes in the page cache, or kMinWindowBytes
// elsewhere.
constexpr uint64_t kSingleRecords = 4096;
constexpr uint64_t kMinCachedWindowBytes = 8 << 20;
constexpr uint64_t kMinWindowBytes = 128 << 20;
// The budget has room for this many blocks of records that are read one by one, if more must be
// read than the records themselves.
constexpr uint64_t kScatteredUnits = 8;
// Memory besides the records themselves.
constexpr uint64_t kViewBytes = sizeof(std::string_view);
constexpr uint64_t kUnitOverhead = 512;
// The units of a shuffle are all over memory, so each is loaded this many items ahead.
constexpr uint64_t kItemsAhead = 8;
// After so many epochs without a row, a run without end ends: it would deliver nothing.
constexpr int kMostEmptyEpochs = 1000;

// Whether each lane of the order belongs to one rank alone.
bool LanesOwned(const OrderSpec& spec, uint64_t world) {
  return spec.kind == OrderSpec::Kind::kShuffle && spec.window != OrderSpec::kAll &&
         spec.lanes % world == 0;
}

bool AnyCompressed(const ShardTable& table) {
  for (size_t shard = 0; shard < table.num_shards(); ++shard) {
    if (table.summary(shard).compression != Compression::kNone) return true;
  }
  return false;
}

void AddNewUnit(std::shared_ptr<PlannedUnit> unit, PlannedBlock* block) {
  block->new_memory += unit->memory;
  block->new_units.push_back(std::move(unit));
}

inline void AddToSlices(PlannedUnit* unit, uint64_t item, PlannedBlock* block) {
  const uint32_t index = unit->IndexOf(item);
  if (!block->slices.empty()) {
    UnitSlice& last = block->slices.back();
    if (last.unit == unit && last.first + last.count == index) {
      ++last.count;
      return;
    }
  }
  block->slices.push_back({unit, index, 1});
}

}  // namespace

ReadPlanner::ReadPlanner(std::shared_ptr<const ShardTable> table, const ReaderOptions& options,
                         const Selection& selection, std::shared_ptr<const Order> order,
                         std::shared_ptr<const PackPlan> pack, ReadPlanOptions plan_options,
                         const ReadPlace& place, uint64_t position)
    : table_(std::move(table)),
      options_(options),
      selection_(selection),
      order_(std::move(order)),
      plan_options_(std::move(plan_options)),
      whole_epoch_{.batch = options.batch, .world = options.world},
      chunk_divider_(order_->spec().chunk),
      first_epoch_(place.epoch),
      decodes_others_(AnyCompressed(*table_) || RecordsDecodedTogether(*table_) > 1),
      epoch_(place.epoch),
      position_(position),
      cursor_(order_->MakeCursor()),
      pack_(std::move(pack)),
      pack_place_(place),
      recent_units_(std::bit_ceil(
          std::clamp<uint64_t>(2 * order_->span() / order_->spec().chunk, 1 << 10, 1 << 16))),
      pieces_from_(position) {
  if (pack_ == nullptr) ShareEpoch(place);
  if (options.leftover && options.leftover->epoch == epoch_) {
    leftover_until_ = options.leftover->behind;
  }
  const uint64_t mean = table_->mean_bytes();
  block_records_ = options.block_records;
  ramp_ = block_records_ == 0;
  if (ramp_) {
    block_records_ =
        std::clamp<uint64_t>(kReadBlockBytes / std::max<uint64_t>(1, mean), 1, kMaxBlockRecords);
  }
  const uint64_t least = plan_options_.cached ? kMinCachedWindowBytes : kMinWindowBytes;
  if (plan_options_.whole_pieces && !plan_options_.remote && pack_ == nullptr &&
      order_->spec().kind == OrderSpec::Kind::kShuffle && mean <= kMergeGapBytes &&
      order_->span() * mean >= least && !decodes_others_) {
    singly_until_ = position + kSingleRecords * options.world;
  }
}

// How much content of a shard is read at once if the order allows it. In a store, these are equal
// parts of the shard, each of about one range.
uint64_t ReadPlanner::CellBytes(size_t shard) const {
  if (!plan_options_.remote) return kReadBlockBytes;
  const uint64_t stream = table_->summary(shard).stream_bytes;
  const uint64_t most = std::max<uint64_t>(1, order_->spec().chunk * table_->mean_bytes());
  const uint64_t cells = std::max<uint64_t>(1, (stream + most / 2) / most);
  return std::max<uint64_t>(1, CeilDivide(stream, cells));
}

// The piece of the order that holds `item`. For compressed or remote shards that are read in order,
// it is one cell, which begins at a restart point, so that nothing is inflated twice.
absl::StatusOr<OrderPiece> ReadPlanner::PieceOf(uint64_t item) const {
  const bool by_position = order_->spec().kind == OrderSpec::Kind::kShuffle;
  const bool all = selection_.size() == table_->num_records();
  if (by_position || !all) return order_->PieceOf(epoch_, item);
  const size_t shard = table_->ShardOf(item);
  const bool compressed = table_->summary(shard).compression != Compression::kNone;
  if (!compressed && !plan_options_.remote) return order_->PieceOf(epoch_, item);
  absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = table_->Index(shard);
  if (!opened.ok()) return opened.status();
  const ShardIndex& index = **opened;
  const uint64_t shard_begin = table_->begins()[shard];
  const uint64_t offset = index.Offset(item - shard_begin);
  const auto cut = [&](uint64_t bytes) {
    return compressed ? index.RestartAtOrAfter(bytes) : bytes;
  };
  uint64_t restart = offset;
  if (compressed && std::min(cut(offset), index.summary().stream_bytes) != offset) {
    restart = index.RestartBefore(offset, /*with_dictionary=*/false).stream_offset;
  }
  const uint64_t cell_bytes = CellBytes(shard);
  const auto first_at = [&](uint64_t bytes) {
    if (bytes >= index.summary().stream_bytes) return index.records();
    const uint64_t record = index.RecordAt(bytes);
    return index.Offset(record) < bytes ? record + 1 : record;
  };
  const uint64_t cell = restart / cell_bytes * cell_bytes;
  const uint64_t begin = shard_begin + first_at(cut(cell));
  const uint64_t end = shard_begin + first_at(cut(cell + cell_bytes));
  // The restart points are inconsistent, so use any piece.
  if (item < begin || item >= end) return order_->PieceOf(epoch_, item);
  return OrderPiece{begin, end, order_->PositionOf(epoch_, begin),
                    order_->PositionOf(epoch_, end - 1)};
}

// Finds which records of a unit this rank needs, and how often it delivers them.
absl::Status ReadPlanner::FindNeeded(const OrderPiece& piece, PlannedUnit* unit) {
  if (pack_ != nullptr) {
    const uint64_t window = pack_->window_records();
    absl::StatusOr<std::vector<uint64_t>> items = rows_->Items(
        piece.min_position / window, piece.max_position / window, unit->begin, unit->end);
    if (!items.ok()) return items.status();
    unit->left = items->size();
    items->erase(std::unique(items->begin(), items->end()), items->end());
    if (items->size() == unit->end - unit->begin) return absl::OkStatus();
    for (uint64_t item : *items) unit->needed.push_back(static_cast<uint32_t>(item - unit->begin));
    return absl::OkStatus();
  }
  // Find the positions of the piece that are delivered by this rank.
  const uint64_t from = epoch_ == first_epoch_ ? pieces_from_ : 0;
  const uint64_t to = std::min(end_, order_->size());
  const bool mine = options_.world == 1 || piece.lanes % options_.world == 0;
  const bool cut = !piece.whole || piece.min_position < from || piece.max_position >= to;
  // Small records are all read anyway, and to request each one where it occurs takes longer.
  const bool all = !cut || (order_->spec().kind == OrderSpec::Kind::kShuffle &&
                            table_->mean_bytes() <= merge_gap_bytes());
  if (!mine || !all) {
    for (uint64_t i = unit->begin; i < unit->end; ++i) {
      const uint64_t position = order_->PositionOf(epoch_, i);
      if (position >= from && position < to && position % options_.world == residue_) {
        unit->needed.push_back(static_cast<uint32_t>(i - unit->begin));
      }
    }
    if (unit->needed.size() == unit->end - unit->begin) unit->needed.clear();
  }
  unit->left = unit->records();
  if (mine && cut && all) {
    unit->left = UINT64_MAX;
    cut_units_.emplace(piece.max_position, unit->shared_from_this());
  }
  return absl::OkStatus();
}

// Makes the unit that holds `item`.
absl::StatusOr<std::shared_ptr<PlannedUnit>> ReadPlanner::MakeUnit(uint64_t item) {
  auto unit = plan_options_.make_unit();
  absl::StatusOr<OrderPiece> piece = PieceOf(item);
  if (!piece.ok()) return piece.status();
  unit->begin = piece->begin;
  unit->end = piece->end;
  absl::Status status = FindNeeded(*piece, unit.get());
  if (!status.ok()) return status;
  if (unit->needed.empty()) {
    status = AddExtents(unit->begin, unit->end, unit.get());
  } else {
    status = AddExtentsOf(
        unit->needed.size(), merge_gap_bytes(),
        [&](size_t i) { return unit->begin + unit->needed[i]; }, unit.get());
  }
  if (!status.ok()) return status;
  CountMemory(unit.get());
  return unit;
}

// Whether a record of a compressed shard is inflated from a point up to which a preceding record
// must be inflated anyway.
bool ReadPlanner::InOneCell(uint64_t before, uint64_t item) const {
  const uint64_t first = selection_.RecordAt(before);
  const uint64_t record = selection_.RecordAt(item);
  // Between items there are no other records than those between their numbers.
  if (record - first != item - before) return false;
  const size_t shard = table_->ShardOf(first);
  const RecordRange range = table_->RangeOf(shard);
  if (record >= range.first + range.count ||
      table_->summary(shard).compression == Compression::kNone) {
    return false;
  }
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = table_->Index(shard);
  if (!index.ok()) return false;  // reading will tell
  const uint64_t offset = (*index)->Offset(record - range.first);
  return (*index)->RestartBefore(offset, /*with_dictionary=*/false).stream_offset <
         (*index)->Offset(first - range.first + 1);
}

// The extents of n items in ascending order. Neighbors are read together, along with small gaps
// between them.
template <typename ItemAt>
absl::Status ReadPlanner::AddExtentsOf(size_t n, uint64_t gap_bytes, const ItemAt& item_at,
                                       PlannedUnit* unit) const {
  const uint64_t mean = std::max<uint64_t>(1, table_->mean_bytes());
  const uint64_t gap = gap_bytes / mean;
  const uint64_t most = std::max<uint64_t>(1, kRemoteReadBytes / mean);
  for (size_t i = 0, j; i < n; i = j) {
    const uint64_t begin = item_at(i);
    uint64_t last = begin;
    for (j = i + 1; j < n; ++j) {
      const uint64_t item = item_at(j);
      const bool near = item - last - 1 <= gap || (decodes_others_ && InOneCell(last, item));
      if (!near || (item > last + 1 && item - begin > most)) break;
      last = item;
    }
    const size_t first_new = unit->extents.size();
    absl::Status status = AddExtents(begin, last + 1, unit);
    if (!status.ok()) return status;
    if (last - begin + 1 == j - i) continue;  // all of them
    uint64_t at = begin;
    size_t next = i;
    size_t kept = first_new;
    for (size_t e = first_new; e < unit->extents.size(); ++e) {
      Extent& extent = unit->extents[e];
      const uint64_t end = at + extent.records;
      for (; next < j && item_at(next) < end; ++next) {
        extent.wanted.push_back(static_cast<uint32_t>(item_at(next) - at));
      }
      at = end;
      // A shard in the gap may have got an extent of its own.
      if (extent.wanted.empty()) continue;
      if (extent.wanted.size() == extent.records) extent.wanted.clear();
      if (kept != e) unit->extents[kept] = std::move(extent);
      ++kept;
    }
    unit->extents.resize(kept);
  }
  return absl::OkStatus();
}

// Makes a unit of items that are read one by one.
absl::StatusOr<std::shared_ptr<PlannedUnit>> ReadPlanner::MakeScatteredUnit(
    absl::Span<const uint64_t> items) {
  auto unit = plan_options_.make_unit();
  unit->scattered.assign(items.begin(), items.end());
  std::sort(unit->scattered.begin(), unit->scattered.end());
  std::vector<uint64_t>& sorted = unit->scattered;
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  unit->left = items.size();
  unit->extents.reserve(sorted.size());
  absl::Status status = AddExtentsOf(
      sorted.size(), plan_options_.remote ? kRemoteScatteredGapBytes : 0,
      [&](size_t i) { return sorted[i]; }, unit.get());
  if (!status.ok()) return status;
  CountMemory(unit.get());
  return unit;
}

absl::Status ReadPlanner::AddExtents(uint64_t begin, uint64_t end, PlannedUnit* unit) const {
  absl::Status status = absl::OkStatus();
  selection_.ForEachRange(begin, end, [&](uint64_t first, uint64_t count) {
    if (status.ok()) status = AppendExtents(*table_, first, count, &unit->extents);
  });
  return status;
}

void ReadPlanner::CountMemory(PlannedUnit* unit) const {
  unit->memory = kUnitOverhead + unit->records() * kViewBytes;
  uint64_t bytes = 0;
  for (const Extent& extent : unit->extents) {
    unit->memory += sizeof(Extent) + sizeof(ReadResult);
    if (extent.compressed()) {
      unit->memory += RoomBytes(extent) + InflationMemory(extent) + 2 * Buffer::kAlignment;
    } else if (SharesBuffer(*unit)) {
      bytes += extent.file_bytes;
    } else {
      unit->memory += RoundUp(extent.file_bytes + Buffer::kAlignment, Buffer::kAlignment);
    }
    if (extent.decoded()) unit->memory += DecodedMemory(extent) + Buffer::kAlignment;
  }
  unit->memory += RoundUp(bytes, Buffer::kAlignment);
}

PlannedUnit* ReadPlanner::FindUnit(uint64_t item) {
  if (PlannedUnit* const known = FindRecent(item); known != nullptr) return known;
  const uint64_t number = chunk_divider_.Divide(item).quotient;
  const auto bucket = units_.find(number);
  if (bucket == units_.end()) return nullptr;
  for (const std::shared_ptr<PlannedUnit>& unit : bucket->second) {
    if (!unit->Has(item)) continue;
    RecentUnits& recent = RecentOf(number);
    recent.known[1] = recent.known[0];
    recent.known[0] = {unit->begin - unit->shift, unit->end - unit->shift, unit.get()};
    return unit.get();
  }
  return nullptr;
}

void ReadPlanner::InsertUnit(const std::shared_ptr<PlannedUnit>& unit) {
  const uint64_t chunk = order_->spec().chunk;
  const uint64_t last = (unit->end - 1 - unit->shift) / chunk;
  for (uint64_t b = (unit->begin - unit->shift) / chunk; b <= last; ++b) {
    units_[b].push_back(unit);
  }
}

void ReadPlanner::EraseUnit(PlannedUnit* unit) {
  const uint64_t chunk = order_->spec().chunk;
  const uint64_t last = (unit->end - 1 - unit->shift) / chunk;
  for (uint64_t b = (unit->begin - unit->shift) / chunk; b <= last; ++b) {
    for (RecentUnits::Known& known : RecentOf(b).known) {
      if (known.unit == unit) known = {};
    }
    const auto bucket = units_.find(b);
    auto& units = bucket->second;
    units.erase(std::remove_if(units.begin(), units.end(),
                               [unit](const auto& other) { return other.get() == unit; }),
                units.end());
    if (units.empty()) units_.erase(bucket);
  }
}

// Divides the positions of the epoch that is being planned among the ranks.
void ReadPlanner::ShareEpoch(const ReadPlace& place) {
  end_ = place.End(order_->size(), options_.end);
  residue_ = (place.from + options_.rank) % options_.world;
}

// Returns false if epochs deliver nothing.
bool ReadPlanner::GoToNextEpoch() {
  ++epoch_;
  position_ = options_.rank;
  leftover_until_ = 0;
  const uint64_t residue_before = residue_;
  ShareEpoch(whole_epoch_);
  KeepUnits(residue_before);
  return end_ > 0;
}

// Keeps the units of the last epoch whose pieces go on in this one, as those of a mixture do, so
// that nothing is read twice. The others are forgotten.
void ReadPlanner::KeepUnits(uint64_t residue_before) {
  const auto cut = std::exchange(cut_units_, {});
  ForgetUnits();
  if (options_.epochs && epoch_ >= *options_.epochs) return;
  // Otherwise, other ranks have the lanes of this one.
  const uint64_t world = options_.world;
  if ((residue_ + order_->size()) % world != residue_before) return;
  for (const auto& [max_position, unit] : cut) {
    const uint64_t item = order_->ItemInNext(epoch_ - 1, unit->begin - unit->shift);
    if (item == Order::kNowhere) continue;
    unit->shift = unit->begin - item;
    InsertUnit(unit);
    cut_units_.emplace(order_->PieceOf(epoch_, item).max_position, unit);
  }
}

void ReadPlanner::ForgetUnits() {
  units_.clear();
  cut_units_.clear();
  std::fill(recent_units_.begin(), recent_units_.end(), RecentUnits());
}

absl::StatusOr<bool> ReadPlanner::Next(PlannedBlock* block) {
  return pack_ != nullptr ? NextRows(block) : NextOfOrder(block);
}

// Plans a block of whole rows of a packing.
absl::StatusOr<bool> ReadPlanner::NextRows(PlannedBlock* block) {
  const auto first_row = [&]() -> absl::Status {
    absl::StatusOr<RankRows> rows =
        RankRows::From(pack_, epoch_, pack_place_.position, pack_place_.from, options_.rank,
                       options_.world, options_.batch);
    if (!rows.ok()) return rows.status();
    rows_ = *std::move(rows);
    absl::StatusOr<std::optional<RankRows::Row>> row = rows_->Next();
    if (!row.ok()) return row.status();
    row_ = *std::move(row);
    return absl::OkStatus();
  };
  if (options_.epochs && epoch_ >= *options_.epochs) return false;
  if (!rows_) {
    if (absl::Status status = first_row(); !status.ok()) return status;
  }
  // Epochs differ in their numbers of rows, so that some may have no whole round of batches.
  for (int empty = 0; !row_; ++empty) {
    ++epoch_;
    if (options_.epochs ? epoch_ >= *options_.epochs : empty == kMostEmptyEpochs) return false;
    pack_place_ = whole_epoch_;
    ForgetUnits();
    if (absl::Status status = first_row(); !status.ok()) return status;
  }
  rows_->DropPassed();
  block->number = next_block_++;
  block->epoch = epoch_;
  uint64_t most = block_records_;
  if (ramp_ && block->number < kRampBlocks) {
    most = std::min(most, kFirstBlockRecords << block->number);
  }
  items_.clear();
  do {
    for (const PackedPart& part : row_->parts()) items_.push_back(part.item);
    block->rows.push_back({row_->place, row_->parts().size()});
    block->next_position = rows_->place();
    block->next_phase = rows_->phase();
    absl::StatusOr<std::optional<RankRows::Row>> row = rows_->Next();
    if (!row.ok()) return row.status();
    row_ = *std::move(row);
  } while (row_ && items_.size() + row_->parts().size() <= most);
  block->position = block->place = block->rows[0].position;
  absl::Status status = plan_options_.whole_pieces
                            ? AddFromPieces(items_.size(), block)
                            : AddSingly(items_, /*may_cut=*/false, block).status();
  if (!status.ok()) return status;
  return true;
}

// Adds the first `count` of the block's items, from the pieces of the order that have them.
absl::Status ReadPlanner::AddFromPieces(uint64_t count, PlannedBlock* block) {
  block->slices.reserve(items_.size());
  block->units.reserve(last_units_);
  PlannedUnit* unit = nullptr;  // unit of the previous item
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t item = items_[i];
    if (unit == nullptr || !unit->Has(item)) {
      if (i + kItemsAhead < count) __builtin_prefetch(FindRecent(items_[i + kItemsAhead]));
      unit = FindUnit(item);
      if (unit == nullptr) {
        absl::StatusOr<std::shared_ptr<PlannedUnit>> made = MakeUnit(item);
        if (!made.ok()) return made.status();
        unit = made->get();
        InsertUnit(*made);
        AddNewUnit(*std::move(made), block);
      }
    }
    if (unit->last_block != block->number) {
      unit->last_block = block->number;
      block->units.push_back(unit->shared_from_this());
    }
    AddToSlices(unit, item, block);
    if (--unit->left == 0) {
      // From here on, blocks keep the unit alive.
      EraseUnit(unit);
      unit = nullptr;
    }
  }
  last_units_ = block->units.size();
  return absl::OkStatus();
}

// Adds items as a unit of the block's own: fewer of them if they `may_cut` and take too much
// memory. Returns how many.
absl::StatusOr<uint64_t> ReadPlanner::AddSingly(absl::Span<const uint64_t> items, bool may_cut,
                                                PlannedBlock* block) {
  absl::StatusOr<std::shared_ptr<PlannedUnit>> made = MakeScatteredUnit(items);
  while (may_cut && made.ok() && items.size() > 1 &&
         (*made)->memory > options_.budget_bytes / kScatteredUnits) {
    items = items.first(items.size() / 2);
    scattered_records_ = items.size();
    made = MakeScatteredUnit(items);
  }
  if (!made.ok()) return made.status();
  for (uint64_t item : items) AddToSlices(made->get(), item, block);
  block->units.push_back(*made);
  AddNewUnit(*std::move(made), block);
  return items.size();
}

// Plans a block of this rank's positions of the order.
absl::StatusOr<bool> ReadPlanner::NextOfOrder(PlannedBlock* block) {
  const uint64_t stride = options_.world;
  while (position_ >= end_) {
    if (!GoToNextEpoch()) return false;
  }
  if (options_.epochs && epoch_ >= *options_.epochs) return false;
  block->number = next_block_++;
  block->epoch = epoch_;
  block->position = block->place = position_;
  block->stride = stride;
  uint64_t n = block_records_;
  if (ramp_ && block->number < kRampBlocks) {
    n = std::min(n, kFirstBlockRecords << block->number);
  }
  if (!plan_options_.whole_pieces) n = std::min(n, scattered_records_);
  n = std::min(n, CeilDivide(end_ - position_, stride));
  const uint64_t size = order_->size();
  uint64_t real = position_ >= size ? 0 : std::min(n, CeilDivide(size - position_, stride));
  const bool left_over = position_ < leftover_until_;
  if (left_over) {
    const PositionRun run = options_.leftover->At(position_);
    real = n = std::min(n, CeilDivide(run.count, stride));
    block->position = run.begin;
    block->stride = run.stride * stride;
  }
  items_.resize(n);
  cursor_->Fill(epoch_, block->position, block->stride, absl::MakeSpan(items_).first(real));
  for (uint64_t i = real; i < n; ++i) {
    items_[i] = order_->ItemAt(epoch_, (position_ + i * stride) % size);
  }
  const bool singly = !plan_options_.whole_pieces || left_over ||
                      (epoch_ == first_epoch_ && position_ + n * stride <= singly_until_);
  const uint64_t in_pieces = singly ? 0 : real;
  absl::Status status = AddFromPieces(in_pieces, block);
  if (!status.ok()) return status;
  // The records used as padding were delivered before, and their units released.
  if (in_pieces < n) {
    const bool may_cut =
        in_pieces == 0 && options_.block_records == 0 && (plan_options_.remote || decodes_others_);
    absl::StatusOr<uint64_t> added =
        AddSingly(absl::MakeSpan(items_).subspan(in_pieces), may_cut, block);
    if (!added.ok()) return added.status();
    n = in_pieces + *added;
  }
  if (options_.end == EpochEnd::kPad && n > real) block->padded = n - real;
  position_ += n * stride;
  if (singly) pieces_from_ = position_;
  // At the end of an epoch, KeepUnits looks at them first.
  while (position_ < end_ && !cut_units_.empty() && cut_units_.begin()->first < position_) {
    EraseUnit(cut_units_.begin()->second.get());
    cut_units_.erase(cut_units_.begin());
  }
  return true;
}

uint64_t RecordsDecodedTogether(const ShardTable& table) {
  for (size_t shard = 0; shard < table.num_shards(); ++shard) {
    const IndexSummary& summary = table.summary(shard);
    if (summary.records == 0) continue;
    if (summary.framing != Framing::kArrayRecord) return 1;
    const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = table.Index(shard);
    return index.ok() ? (*index)->ChunkOf(0).records : 1;  // reading tells of the error
  }
  return 1;
}

MemoryPlan PlanMemory(const ShardTable& table, const Order& order, const ReaderOptions& options) {
  const OrderSpec& spec = order.spec();
  const uint64_t mean = table.mean_bytes();
  uint64_t held = order.HeldBytes(options.world, mean);
  if (options.pack) {
    const bool divided = LanesOwned(spec, options.world) || mean > kMergeGapBytes;
    held += PackWindowOf(*options.pack, mean) / (divided ? options.world : 1) * mean;
  }
  held += held / std::max<uint64_t>(1, mean) * kViewBytes;
  MemoryPlan plan;
  plan.held_bytes = held + held / 8 + 8 * kReadBlockBytes;
  plan.budget_bytes = options.budget_bytes;
  const bool shuffled = spec.kind == OrderSpec::Kind::kShuffle;
  const bool exact = shuffled && spec.window == OrderSpec::kAll;
  const uint64_t room =
      options.budget_bytes - ClientBytes(table, order.spec(), options.budget_bytes);
  plan.whole_chunks = !exact && (!shuffled || plan.held_bytes <= room);
  return plan;
}

absl::Status CheckMemory(const ShardTable& table, const Order& order, const MemoryPlan& memory) {
  const OrderSpec& spec = order.spec();
  const bool exact = spec.kind == OrderSpec::Kind::kShuffle && spec.window == OrderSpec::kAll;
  if (!table.remote() || memory.whole_chunks || exact) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the window of the shuffle takes {} bytes, but the budget has {}: records would "
                  "be read one by one, which takes too long from a store; use a larger budget or a "
                  "smaller window",
                  memory.held_bytes, memory.budget_bytes));
}

}  // namespace shardfeed
