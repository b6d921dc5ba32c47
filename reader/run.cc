#include "reader/run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "fmt/format.h"
#include "io/budget.h"
#include "io/buffer.h"
#include "io/engine.h"
#include "io/engine_choice.h"
#include "io/parallel.h"
#include "io/thread.h"
#include "reader/divider.h"
#include "reader/io_choice.h"
#include "reader/salvaged_shards.h"
#include "reader/unit.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxBlockRecords = 4096;
constexpr uint64_t kFirstBlockRecords = 16;
constexpr uint64_t kRampBlocks = 16;
constexpr size_t kWakeBlocks = 4;
// Records that are not needed are read all the same when less than this lies between two that are.
constexpr uint64_t kMergeGapBytes = 32 << 10;
// A run's first records, about so many, are read one by one: the first block of a shuffle has
// records of nearly every piece in the window. Only where the window takes longer to read, which is
// soon so in the page cache.
constexpr uint64_t kSingleRecords = 4096;
constexpr uint64_t kMinCachedWindowBytes = 8 << 20;
constexpr uint64_t kMinWindowBytes = 128 << 20;
// Memory besides the records themselves.
constexpr uint64_t kViewBytes = sizeof(std::string_view);
constexpr uint64_t kUnitOverhead = 512;

uint64_t RoundUp(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// Whether each lane of the order belongs to one rank alone.
bool LanesOwned(const OrderSpec& spec, uint64_t world) {
  return spec.kind == OrderSpec::Kind::kShuffle && spec.window != OrderSpec::kAll &&
         spec.lanes % world == 0;
}

uint64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The run works on blocks, which are stretches of this rank's positions, and on units, which are
// the records that are read together. A block is planned when its positions have been turned into
// slices of units; units that are not there yet are queued for reading then. Blocks are planned in
// their order, and only as far as the budget goes, except that one block is always allowed: the one
// that the consumer waits for. A unit leaves the table when the last of its records has been
// planned, and memory when the last block with a record of it has been let go.
//
// Every thread does whatever is to be done: plan (one at a time), read and check. `mutex_` guards
// what they share; what only the planner uses belongs to the thread that has set `planning_`.
// Memory is never let go under `mutex_`, for the budget then calls back.
class ThreadedRun : public ReadRun {
 public:
  ThreadedRun(std::shared_ptr<const ShardTable> table, const ReaderOptions& options,
              const Selection& selection, std::shared_ptr<const Order> order, bool whole_chunks,
              const ReadPlace& place, uint64_t position)
      : table_(std::move(table)),
        options_(options),
        selection_(selection),
        order_(std::move(order)),
        whole_epoch_{.batch = options.batch, .world = options.world},
        plan_epoch_(place.epoch),
        plan_position_(position),
        first_epoch_(place.epoch),
        budget_(std::make_shared<ByteBudget>(options.budget_bytes)),
        pool_(options.buffers != nullptr
                  ? options.buffers
                  : BufferPool::Create(options.budget_bytes, BufferPool::Memory::kSlabs)),
        choice_(ChooseIo(*table_, options.io, options.cache)),
        thread_count_(ThreadCount(options.threads)),
        chunk_divider_(order_->spec().chunk),
        whole_pieces_(whole_chunks) {
    ShareEpoch(place);
    const OrderSpec& spec = order_->spec();
    lanes_owned_ = LanesOwned(spec, options.world);
    block_records_ = options.block_records;
    ramp_ = block_records_ == 0;
    if (ramp_) {
      block_records_ = std::clamp<uint64_t>(
          kBlockBytes / std::max<uint64_t>(1, table_->mean_bytes()), 1, kMaxBlockRecords);
    }
    pieces_from_ = position;
    const uint64_t mean = table_->mean_bytes();
    const uint64_t least = choice_.engine.inline_reads ? kMinCachedWindowBytes : kMinWindowBytes;
    if (whole_pieces_ && spec.kind == OrderSpec::Kind::kShuffle && mean <= kMergeGapBytes &&
        order_->span() * mean >= least && !AnyCompressed()) {
      singly_until_ = position + kSingleRecords * options.world;
    }
    // What is cached need not be read far ahead, and is best used while the processor's caches have
    // it; a device wants to be kept busy.
    max_blocks_ = choice_.engine.inline_reads ? 6 * thread_count_ : 4 * choice_.engine.depth;
    stats_.whole_chunks = whole_pieces_;
    stats_.threads = thread_count_;
    stats_.io_reason = choice_.reason;
  }

  ~ThreadedRun() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    for (const std::unique_ptr<Engine>& engine : engines_) engine->Wake();
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    budget_->SetOnRoom(nullptr);
    engines_.clear();
    if (options_.buffers == nullptr) pool_->Close();
  }

  absl::Status StartThreads() {
    // Engines are made here, so that one that cannot be made is the consumer's error.
    for (int i = 0; i < thread_count_; ++i) {
      EngineOptions options = choice_.engine;
      options.pool = pool_;
      // Each request holds a file open.
      const auto max_open = static_cast<int>(table_->max_open());
      options.depth = std::clamp(choice_.engine.depth / thread_count_, 1, max_open);
      absl::StatusOr<std::unique_ptr<Engine>> engine = MakeEngine(options);
      if (!engine.ok()) return engine.status();
      engines_.push_back(*std::move(engine));
    }
    budget_->SetOnRoom([this] {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        plan_stuck_ = false;
      }
      work_.notify_one();
    });
    threads_.reserve(thread_count_);
    for (int i = 0; i < thread_count_; ++i) {
      absl::StatusOr<std::thread> thread = StartThread([this, i] {
        absl::Status status = CatchAll([&] { Work(*engines_[i]); });
        if (status.ok()) return;
        {
          std::lock_guard<std::mutex> lock(mutex_);
          fatal_ = std::move(status);
        }
        delivery_.notify_all();
      });
      if (!thread.ok()) return i == 0 ? thread.status() : absl::OkStatus();
      threads_.push_back(*std::move(thread));
    }
    return absl::OkStatus();
  }

  absl::Status Next(ReadBlock* out) override {
    std::shared_ptr<Block> block;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto ready = [this] { return Ready(); };
      consumer_waits_ = true;
      if (!ready()) {
        const auto start = std::chrono::steady_clock::now();
        // The block that is now at the head is planned whatever the budget says.
        plan_stuck_ = false;
        work_.notify_one();
        delivery_.wait(lock, ready);
        ++stats_.stalls;
        stats_.stall_seconds +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
      consumer_waits_ = false;
      if (!fatal_.ok()) return fatal_;
      if (blocks_.empty()) {
        const absl::Status failure = failure_;
        lock.unlock();
        if (failure.ok()) *out = ReadBlock();
        return failure;
      }
      if (options_.deterministic) {
        block = std::move(blocks_.front());
        blocks_.pop_front();
      } else {
        block = std::move(done_.front());
        done_.pop_front();
        blocks_.erase(std::find(blocks_.begin(), blocks_.end(), block));
      }
      plan_stuck_ = false;
    }
    work_.notify_one();
    if (!block->status.ok()) return block->status;
    // Of this block's damaged records, in their order.
    if (block->out.epoch != skipping_epoch_) {
      skipping_epoch_ = block->out.epoch;
      skipped_in_epoch_ = 0;
    }
    for (const auto& [index, damaged] : block->damaged) {
      ++skipped_;
      if (!options_.damage.skip) return absl::DataLossError(damaged->Message());
      if (++skipped_in_epoch_ == 1) first_skipped_ = damaged->Message();
      if (skipped_in_epoch_ > options_.damage.max_skipped.Of(order_->size())) {
        return absl::DataLossError(
            fmt::format("{} of {} records are damaged, which is more than may be skipped; the "
                        "first is {}; repair the dataset with 'shardfeed repair', or raise "
                        "max-skipped",
                        skipped_in_epoch_, order_->size(), first_skipped_));
      }
      if (options_.on_skip) options_.on_skip(*damaged);
      block->out.damaged.push_back(index);
    }
    *out = std::move(block->out);
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.records += out->records.size() - out->damaged.size();
    stats_.bytes += block->frame_bytes;
    stats_.skipped = skipped_;
    return absl::OkStatus();
  }

  ReaderStats stats() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    ReaderStats stats = stats_;
    stats.peak_buffer_bytes = budget_->peak();
    return stats;
  }

 private:
  // Whether the consumer has something to take. mutex_.
  bool Ready() const {
    if (!fatal_.ok()) return true;
    if (blocks_.empty()) return planned_all_;
    return options_.deterministic ? blocks_.front()->done : !done_.empty();
  }

  // Whether to wake a consumer that waits. Waking costs a tenth of reading a block from the page
  // cache, so there several are awaited. (Those of a shuffle are complete in bursts. A thread that
  // has nothing to do wakes it for any.) mutex_.
  bool ReadyEnough() const {
    if (!Ready()) return false;
    const bool shuffled = order_->spec().kind == OrderSpec::Kind::kShuffle;
    if (!choice_.engine.inline_reads || shuffled || !options_.deterministic) return true;
    if (blocks_.empty() || blocks_.front()->number < kRampBlocks) return true;
    for (size_t i = 0; i < kWakeBlocks; ++i) {
      if (i >= blocks_.size() || !blocks_[i]->done) return false;
    }
    return true;
  }

  // Memory of the budget, given back when the last view is gone.
  struct Reservation {
    Reservation(std::shared_ptr<ByteBudget> from, uint64_t n) : budget(std::move(from)), bytes(n) {}
    ~Reservation() { budget->Release(bytes); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    std::shared_ptr<ByteBudget> budget;
    uint64_t bytes;
  };

  struct Block;

  // What the views of a unit need; blocks hold it.
  struct Payloads {
    std::optional<Reservation> reservation;
    std::vector<std::string_view> views;
    BufferRefs buffers;
    std::vector<DamagedRecord> damaged;  // in the order of the records
  };

  struct Unit : std::enable_shared_from_this<Unit> {
    // Either a piece of the order, items [begin, end), of which this rank delivers those in
    // `needed` (rising; all if empty); or, if `scattered` is not empty, the items of one block,
    // rising.
    uint64_t begin = 0;
    uint64_t end = 0;
    std::vector<uint32_t> needed;
    std::vector<uint64_t> scattered;
    Extents extents;
    uint64_t memory = 0;
    // Of the thread that plans.
    uint64_t left = 0;                 // records that no block has asked for yet; see cut_units_
    uint64_t last_block = UINT64_MAX;  // that has asked for any
    // Thread that reads it only.
    std::shared_ptr<Buffer> buffer;  // of all its extents, if they are many
    uint64_t buffer_used = 0;
    absl::InlinedVector<ReadResult, 1> results;  // one for each extent
    size_t results_missing = 0;
    // mutex_.
    bool ready = false;
    absl::Status status;
    absl::InlinedVector<Block*, 4> waiting;
    std::shared_ptr<Payloads> payloads;
    // Of the payloads, once it is ready.
    const std::string_view* views = nullptr;
    bool any_damaged = false;

    uint64_t records() const {
      if (!scattered.empty()) return scattered.size();
      return needed.empty() ? end - begin : needed.size();
    }
    // Where item `item` stands among the views.
    uint32_t IndexOf(uint64_t item) const {
      if (!scattered.empty()) {
        return std::lower_bound(scattered.begin(), scattered.end(), item) - scattered.begin();
      }
      const auto local = static_cast<uint32_t>(item - begin);
      if (needed.empty()) return local;
      return std::lower_bound(needed.begin(), needed.end(), local) - needed.begin();
    }
  };

  // Consecutive views of one unit.
  struct Slice {
    Unit* unit;
    uint32_t first;
    uint32_t count;
  };

  struct Block {
    uint64_t number = 0;
    std::vector<Slice> slices;
    std::vector<std::shared_ptr<Unit>> units;
    std::vector<std::shared_ptr<Unit>> new_units;
    uint64_t new_memory = 0;
    // mutex_.
    size_t units_missing = 0;
    bool done = false;
    absl::Status status;
    // Filled when all units are there.
    ReadBlock out;
    uint64_t frame_bytes = 0;
    std::vector<std::pair<uint32_t, const DamagedRecord*>> damaged;
  };

  // ---- Planning

  // Where a record cannot be read without those before it.
  bool AnyCompressed() const {
    for (size_t shard = 0; shard < table_->num_shards(); ++shard) {
      if (table_->summary(shard).compression != Compression::kNone) return true;
    }
    return false;
  }

  // A piece of the order; for compressed shards read in their order, one that begins at a restart
  // point, so that nothing is inflated twice.
  absl::StatusOr<OrderPiece> PieceOf(uint64_t item) const {
    const bool by_position = order_->spec().kind == OrderSpec::Kind::kShuffle;
    const bool all = selection_.size() == table_->num_records();
    if (by_position || !all) return order_->PieceOf(plan_epoch_, item);
    const size_t shard = table_->ShardOf(item);
    if (table_->summary(shard).compression == Compression::kNone) {
      return order_->PieceOf(plan_epoch_, item);
    }
    absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = table_->Index(shard);
    if (!opened.ok()) return opened.status();
    const ShardIndex& index = **opened;
    const uint64_t shard_begin = table_->begins()[shard];
    const uint64_t offset = index.Offset(item - shard_begin);
    const uint64_t restart =
        std::min(index.RestartAtOrAfter(offset), index.summary().stream_bytes) == offset
            ? offset
            : index.RestartBefore(offset, /*with_window=*/false).stream_offset;
    const uint64_t cell = restart / kBlockBytes * kBlockBytes;
    const auto first_at = [&](uint64_t bytes) {
      if (bytes >= index.summary().stream_bytes) return index.records();
      const uint64_t record = index.RecordAt(bytes);
      return index.Offset(record) < bytes ? record + 1 : record;
    };
    const uint64_t begin = shard_begin + first_at(index.RestartAtOrAfter(cell));
    const uint64_t end = shard_begin + first_at(index.RestartAtOrAfter(cell + kBlockBytes));
    // Restart points that make no sense: any piece is as good.
    if (item < begin || item >= end) return order_->PieceOf(plan_epoch_, item);
    return OrderPiece{begin, end, order_->PositionOf(plan_epoch_, begin),
                      order_->PositionOf(plan_epoch_, end - 1)};
  }

  // The new unit that holds `item`.
  absl::StatusOr<std::shared_ptr<Unit>> MakeUnit(uint64_t item) {
    auto unit = std::make_shared<Unit>();
    absl::StatusOr<OrderPiece> piece = PieceOf(item);
    if (!piece.ok()) return piece.status();
    unit->begin = piece->begin;
    unit->end = piece->end;
    // Which positions of the piece are delivered, and by this rank?
    const uint64_t from = plan_epoch_ == first_epoch_ ? pieces_from_ : 0;
    const uint64_t to = std::min(plan_end_, order_->size());
    const uint64_t leftover = order_->size() - order_->size() % order_->spec().lanes;
    const bool mine = options_.world == 1 || (lanes_owned_ && piece->max_position < leftover);
    const bool cut = piece->min_position < from || piece->max_position >= to;
    // Of small records all are read anyway, and to ask for each where it comes takes longer.
    const bool all = !cut || (order_->spec().kind == OrderSpec::Kind::kShuffle &&
                              table_->mean_bytes() <= kMergeGapBytes);
    if (!mine || !all) {
      for (uint64_t i = unit->begin; i < unit->end; ++i) {
        const uint64_t position = order_->PositionOf(plan_epoch_, i);
        if (position >= from && position < to && position % options_.world == plan_residue_) {
          unit->needed.push_back(static_cast<uint32_t>(i - unit->begin));
        }
      }
      if (unit->needed.size() == unit->end - unit->begin) unit->needed.clear();
    }
    unit->left = unit->records();
    if (mine && cut && all) {
      unit->left = UINT64_MAX;
      cut_units_.emplace(piece->max_position, unit);
    }
    absl::Status status = absl::OkStatus();
    if (unit->needed.empty()) {
      status = AddExtents(unit->begin, unit->end, unit.get());
    } else {
      status = AddNeededExtents(unit.get());
    }
    if (!status.ok()) return status;
    CountMemory(unit.get());
    return unit;
  }

  // Of what is needed, neighbours are read together, with what little lies between them.
  absl::Status AddNeededExtents(Unit* unit) const {
    const std::vector<uint32_t>& needed = unit->needed;
    const uint64_t gap = kMergeGapBytes / std::max<uint64_t>(1, table_->mean_bytes());
    for (size_t i = 0, j; i < needed.size(); i = j) {
      j = i + 1;
      while (j < needed.size() && needed[j] - needed[j - 1] - 1 <= gap) ++j;
      const size_t first_new = unit->extents.size();
      absl::Status status =
          AddExtents(unit->begin + needed[i], unit->begin + needed[j - 1] + 1, unit);
      if (!status.ok()) return status;
      uint64_t at = needed[i];
      size_t next = i;
      size_t kept = first_new;
      for (size_t e = first_new; e < unit->extents.size(); ++e) {
        Extent& extent = unit->extents[e];
        const uint64_t end = at + extent.records;
        for (; next < j && needed[next] < end; ++next) {
          extent.wanted.push_back(static_cast<uint32_t>(needed[next] - at));
        }
        at = end;
        // What lies between may have an extent (a shard) of its own.
        if (extent.wanted.empty()) continue;
        if (extent.wanted.size() == extent.records) extent.wanted.clear();
        if (kept != e) unit->extents[kept] = std::move(extent);
        ++kept;
      }
      unit->extents.resize(kept);
    }
    return absl::OkStatus();
  }

  // The unit of items that are read one by one.
  absl::StatusOr<std::shared_ptr<Unit>> MakeScatteredUnit(absl::Span<const uint64_t> items) {
    auto unit = std::make_shared<Unit>();
    unit->scattered.assign(items.begin(), items.end());
    std::sort(unit->scattered.begin(), unit->scattered.end());
    std::vector<uint64_t>& sorted = unit->scattered;
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    unit->left = items.size();
    unit->extents.reserve(sorted.size());
    for (size_t i = 0, j; i < sorted.size(); i = j) {
      j = i + 1;
      while (j < sorted.size() && sorted[j] == sorted[j - 1] + 1) ++j;
      absl::Status status = AddExtents(sorted[i], sorted[j - 1] + 1, unit.get());
      if (!status.ok()) return status;
    }
    CountMemory(unit.get());
    return unit;
  }

  absl::Status AddExtents(uint64_t begin, uint64_t end, Unit* unit) const {
    absl::Status status = absl::OkStatus();
    selection_.ForEachRange(begin, end, [&](uint64_t first, uint64_t count) {
      if (status.ok()) status = AppendExtents(*table_, first, count, &unit->extents);
    });
    return status;
  }

  // Many reads through the page cache share a buffer; past it, each has whole pages of its own.
  bool SharesBuffer(const Unit& unit) const {
    return unit.extents.size() > 1 && !choice_.engine.direct;
  }

  void CountMemory(Unit* unit) const {
    unit->memory = kUnitOverhead + unit->records() * kViewBytes;
    uint64_t bytes = 0;
    for (const Extent& extent : unit->extents) {
      unit->memory += sizeof(Extent) + sizeof(ReadResult);
      if (extent.compressed()) {
        // Deflated and inflated, each with a bit more.
        unit->memory += extent.bytes + kBlockBytes;
      } else if (SharesBuffer(*unit)) {
        bytes += extent.bytes;
      } else {
        unit->memory += RoundUp(extent.bytes + Buffer::kAlignment, Buffer::kAlignment);
      }
    }
    unit->memory += RoundUp(bytes, Buffer::kAlignment);
  }

  Unit* FindUnit(uint64_t item) {
    const uint64_t number = chunk_divider_.Divide(item).quotient;
    Unit*& recent = recent_units_[number % kRecentUnits];
    if (recent != nullptr && recent->begin <= item && item < recent->end) return recent;
    const auto bucket = table_of_units_.find(number);
    if (bucket == table_of_units_.end()) return nullptr;
    for (const std::shared_ptr<Unit>& unit : bucket->second) {
      if (unit->begin <= item && item < unit->end) return recent = unit.get();
    }
    return nullptr;
  }

  void InsertUnit(const std::shared_ptr<Unit>& unit) {
    const uint64_t chunk = order_->spec().chunk;
    for (uint64_t b = unit->begin / chunk; b <= (unit->end - 1) / chunk; ++b) {
      table_of_units_[b].push_back(unit);
    }
  }

  void EraseUnit(Unit* unit) {
    const uint64_t chunk = order_->spec().chunk;
    for (uint64_t b = unit->begin / chunk; b <= (unit->end - 1) / chunk; ++b) {
      if (recent_units_[b % kRecentUnits] == unit) recent_units_[b % kRecentUnits] = nullptr;
      const auto bucket = table_of_units_.find(b);
      auto& units = bucket->second;
      units.erase(std::remove_if(units.begin(), units.end(),
                                 [unit](const auto& other) { return other.get() == unit; }),
                  units.end());
      if (units.empty()) table_of_units_.erase(bucket);
    }
  }

  // The positions of the epoch that is planned that are this rank's.
  void ShareEpoch(const ReadPlace& place) {
    plan_end_ = place.End(order_->size(), options_.end);
    plan_residue_ = (place.from + options_.rank) % options_.world;
  }

  // The next block, or nullptr behind the last.
  absl::StatusOr<std::unique_ptr<Block>> PlanBlock() {
    const uint64_t stride = options_.world;
    while (plan_position_ >= plan_end_) {
      ++plan_epoch_;
      plan_position_ = options_.rank;
      ShareEpoch(whole_epoch_);
      if (plan_end_ == 0) return nullptr;
      table_of_units_.clear();
      cut_units_.clear();
      std::fill(recent_units_.begin(), recent_units_.end(), nullptr);
    }
    if (options_.epochs && plan_epoch_ >= *options_.epochs) return nullptr;
    auto block = std::make_unique<Block>();
    block->number = next_block_++;
    block->out.epoch = plan_epoch_;
    block->out.position = plan_position_;
    block->out.stride = stride;
    uint64_t n = block_records_;
    if (ramp_ && block->number < kRampBlocks) {
      n = std::min(n, kFirstBlockRecords << block->number);
    }
    n = std::min(n, (plan_end_ - plan_position_ + stride - 1) / stride);
    const uint64_t size = order_->size();
    const uint64_t real =
        plan_position_ >= size ? 0 : std::min(n, (size - plan_position_ + stride - 1) / stride);
    items_.resize(n);
    order_->Fill(plan_epoch_, plan_position_, stride, absl::MakeSpan(items_).first(real));
    for (uint64_t i = real; i < n; ++i) {
      items_[i] = order_->ItemAt(plan_epoch_, (plan_position_ + i * stride) % size);
    }
    if (options_.end == EpochEnd::kPad) block->out.padded = n - real;

    block->slices.reserve(n);
    const bool singly = !whole_pieces_ || (plan_epoch_ == first_epoch_ &&
                                           plan_position_ + n * stride <= singly_until_);
    const uint64_t in_pieces = singly ? 0 : real;
    Unit* unit = nullptr;  // of the item before
    for (uint64_t i = 0; i < in_pieces; ++i) {
      const uint64_t item = items_[i];
      if (unit == nullptr || item < unit->begin || item >= unit->end) {
        unit = FindUnit(item);
        if (unit == nullptr) {
          absl::StatusOr<std::shared_ptr<Unit>> made = MakeUnit(item);
          if (!made.ok()) return made.status();
          unit = made->get();
          InsertUnit(*made);
          AddNewUnit(*std::move(made), block.get());
        }
      }
      if (unit->last_block != block->number) {
        unit->last_block = block->number;
        block->units.push_back(unit->shared_from_this());
      }
      AddToSlices(unit, item, block.get());
      if (--unit->left == 0) {
        // Blocks keep it from here on.
        EraseUnit(unit);
        unit = nullptr;
      }
    }
    // What is padding has been delivered before, and its unit let go.
    if (in_pieces < n) {
      absl::StatusOr<std::shared_ptr<Unit>> made =
          MakeScatteredUnit(absl::MakeSpan(items_).subspan(in_pieces));
      if (!made.ok()) return made.status();
      for (uint64_t i = in_pieces; i < n; ++i) AddToSlices(made->get(), items_[i], block.get());
      block->units.push_back(*made);
      AddNewUnit(*std::move(made), block.get());
    }
    plan_position_ += n * stride;
    if (singly) pieces_from_ = plan_position_;
    while (!cut_units_.empty() && cut_units_.begin()->first < plan_position_) {
      EraseUnit(cut_units_.begin()->second.get());
      cut_units_.erase(cut_units_.begin());
    }
    return block;
  }

  static void AddNewUnit(std::shared_ptr<Unit> unit, Block* block) {
    block->new_memory += unit->memory;
    block->new_units.push_back(std::move(unit));
  }

  static void AddToSlices(Unit* unit, uint64_t item, Block* block) {
    const uint32_t index = unit->IndexOf(item);
    if (!block->slices.empty()) {
      Slice& last = block->slices.back();
      if (last.unit == unit && last.first + last.count == index) {
        ++last.count;
        return;
      }
    }
    block->slices.push_back({unit, index, 1});
  }

  // Plans until something is queued for reading (then true), the budget is used up, or the consumer
  // is far enough behind.
  bool Plan() {
    while (true) {
      if (pending_ == nullptr) {
        {
          std::lock_guard<std::mutex> lock(mutex_);
          if (stopping_) return false;
          if (blocks_.size() >= max_blocks_) {
            plan_stuck_ = true;
            return false;
          }
        }
        absl::StatusOr<std::unique_ptr<Block>> block = PlanBlock();
        if (!block.ok() || *block == nullptr) {
          {
            std::lock_guard<std::mutex> lock(mutex_);
            planned_all_ = true;
            if (!block.ok()) failure_ = block.status();
          }
          delivery_.notify_all();
          return false;
        }
        pending_ = *std::move(block);
      }
      if (!budget_->TryReserve(pending_->new_memory)) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (stopping_) return false;
        if (blocks_.empty() && consumer_waits_) {
          budget_->ForceReserve(pending_->new_memory);
        } else {
          plan_stuck_ = true;
          budget_->NotifyOnRelease();
          // What was released just before is not announced.
          if (!budget_->TryReserve(pending_->new_memory)) return false;
          plan_stuck_ = false;
        }
      }
      for (const std::shared_ptr<Unit>& unit : pending_->new_units) {
        unit->payloads = std::make_shared<Payloads>();
        unit->payloads->reservation.emplace(budget_, unit->memory);
      }
      const std::shared_ptr<Block> block = std::move(pending_);
      std::shared_ptr<Block> ready;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        for (const std::shared_ptr<Unit>& unit : block->units) {
          if (unit->ready) continue;
          ++block->units_missing;
          unit->waiting.push_back(block.get());
        }
        blocks_.push_back(block);
        for (std::shared_ptr<Unit>& unit : block->new_units) to_read_.push_back(std::move(unit));
        if (block->units_missing == 0) ready = block;
      }
      const bool queued = !block->new_units.empty();
      block->new_units.clear();
      if (ready != nullptr) Assemble(*ready);
      if (queued) return true;
    }
  }

  // ---- Reading

  void Work(Engine& engine) {
    std::vector<ReadRequest> requests;
    std::vector<ReadResult> results;
    // Units with extents that are still to be read, by slot. A tag is a slot and the number of an
    // extent.
    std::vector<std::shared_ptr<Unit>> slots;
    std::vector<uint64_t> free_slots;
    std::deque<std::pair<uint64_t, uint32_t>> to_submit;  // slot, extent
    const size_t depth = engine.depth();
    EngineStats counted;
    while (true) {
      // Planned before there is nothing to read, so that the other threads need not wait for it.
      if (engine.reads_in_wait()) TryPlan(2 * thread_count_);
      // As many units as keep the engine busy; just one if nobody reads while this thread checks.
      while (engine.reads_in_wait() ? engine.outstanding() + to_submit.size() == 0
                                    : engine.outstanding() + to_submit.size() < depth) {
        std::shared_ptr<Unit> unit;
        {
          std::lock_guard<std::mutex> lock(mutex_);
          if (stopping_) return;
          if (to_read_.empty()) break;
          unit = std::move(to_read_.front());
          to_read_.pop_front();
        }
        uint64_t slot = slots.size();
        if (free_slots.empty()) {
          slots.emplace_back();
        } else {
          slot = free_slots.back();
          free_slots.pop_back();
        }
        unit->results.resize(unit->extents.size());
        uint64_t shared_bytes = 0;
        for (size_t i = 0; i < unit->extents.size(); ++i) {
          if (unit->extents[i].compressed()) continue;
          to_submit.emplace_back(slot, static_cast<uint32_t>(i));
          ++unit->results_missing;
          shared_bytes += unit->extents[i].bytes;
        }
        if (unit->results_missing == 0) {
          free_slots.push_back(slot);
          FinishUnit(*unit);
          continue;
        }
        if (SharesBuffer(*unit)) unit->buffer = pool_->Allocate(shared_bytes);
        slots[slot] = std::move(unit);
      }
      requests.clear();
      while (!to_submit.empty() && engine.outstanding() + requests.size() < depth) {
        const auto [slot, i] = to_submit.front();
        to_submit.pop_front();
        Unit& unit = *slots[slot];
        const Extent& extent = unit.extents[i];
        const uint64_t tag = slot << 32 | i;
        absl::StatusOr<std::shared_ptr<const File>> file = table_->OpenFile(extent.shard);
        if (file.ok()) {
          requests.push_back(
              {*std::move(file), extent.offset, extent.bytes, tag, unit.buffer, unit.buffer_used});
          if (unit.buffer != nullptr) unit.buffer_used += extent.bytes;
        } else {
          results.push_back({tag, file.status()});
        }
      }
      if (!requests.empty()) engine.Submit(requests);
      if (engine.outstanding() > 0) {
        // While the device works, the next blocks are planned.
        if (engine.reads_in_wait()) {
          const uint64_t start = options_.on_work ? NowNs() : 0;
          engine.Wait(engine.outstanding(), &results);
          if (options_.on_work) options_.on_work("read", start, NowNs(), 0);
        } else if (engine.outstanding() < depth && TryPlan()) {
          engine.Wait(0, &results);
        } else {
          engine.Wait(1, &results);
        }
        UpdateStats(engine, counted);
      }
      for (ReadResult& result : results) {
        const uint64_t slot = result.tag >> 32;
        Unit& unit = *slots[slot];
        unit.results[result.tag & UINT32_MAX] = std::move(result);
        if (--unit.results_missing > 0) continue;
        FinishUnit(*std::exchange(slots[slot], nullptr));
        free_slots.push_back(slot);
      }
      results.clear();
      if (engine.outstanding() > 0 || !to_submit.empty() || TryPlan()) continue;
      // Nothing to read and nothing to plan: until the budget has room, or the consumer waits.
      std::unique_lock<std::mutex> lock(mutex_);
      const auto any_work = [&] { return stopping_ || !to_read_.empty() || MayPlan(); };
      if (consumer_waits_ && Ready() && !any_work()) delivery_.notify_one();
      work_.wait(lock, any_work);
      if (stopping_) return;
    }
  }

  bool MayPlan() const { return !planning_ && !planned_all_ && !plan_stuck_; }

  // Plans, if nobody does and fewer than `enough` units wait to be read.
  bool TryPlan(size_t enough = SIZE_MAX) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!MayPlan() || to_read_.size() >= enough) return false;
      planning_ = true;
    }
    const bool queued = Plan();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      planning_ = false;
    }
    work_.notify_all();
    return queued;
  }

  // Checks a unit whose bytes are there, and hands it to the blocks that wait.
  void FinishUnit(Unit& unit) {
    // The last block to need the unit may be delivered, and let go, before this function ends.
    const std::shared_ptr<Unit> keep = unit.shared_from_this();
    const uint64_t start = options_.on_work ? NowNs() : 0;
    Payloads& payloads = *unit.payloads;
    payloads.views.reserve(unit.records());
    absl::Status status = absl::OkStatus();
    uint64_t inflated = 0;
    for (size_t i = 0; i < unit.extents.size() && status.ok(); ++i) {
      const Extent& extent = unit.extents[i];
      const size_t views_before = payloads.views.size();
      const size_t damaged_before = payloads.damaged.size();
      if (extent.compressed()) {
        status = InflateExtent(*table_, extent, options_.check, *pool_, &payloads.views,
                               &payloads.buffers, &payloads.damaged, &inflated);
      } else {
        ReadResult& result = unit.results[i];
        if (result.status.ok()) {
          CheckExtent(*table_, extent, result.data, options_.check, &payloads.views,
                      &payloads.damaged);
          if (result.buffer != unit.buffer) payloads.buffers.push_back(std::move(result.buffer));
        } else if (options_.damage.skip && absl::IsDataLoss(result.status)) {
          // The shard was cut after it was opened.
          AllDamaged(*table_, extent, std::string(result.status.message()), &payloads.views,
                     &payloads.damaged);
        } else {
          status = result.status;
        }
      }
      if (status.ok() && options_.damage.skip && payloads.damaged.size() > damaged_before) {
        status = salvaged_.Salvage(*table_, extent, options_.check, views_before, damaged_before,
                                   &payloads.views, &payloads.buffers, &payloads.damaged);
      }
    }
    if (options_.on_work) options_.on_work("check", start, NowNs(), payloads.views.size());
    if (unit.buffer != nullptr) payloads.buffers.push_back(std::move(unit.buffer));
    unit.results = {};
    unit.extents = {};
    unit.views = payloads.views.data();
    unit.any_damaged = !payloads.damaged.empty();
    std::vector<Block*> complete;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      unit.ready = true;
      unit.status = status;
      stats_.bytes_read += inflated;
      if (inflated > 0 && stats_.io.empty()) stats_.io = "pread";  // see InflateExtent
      for (Block* block : unit.waiting) {
        if (--block->units_missing == 0) complete.push_back(block);
      }
      unit.waiting.clear();
    }
    for (Block* block : complete) Assemble(*block);
  }

  // Fills a block whose units are all there. No other thread has it in its hands.
  void Assemble(Block& block) {
    for (const std::shared_ptr<Unit>& unit : block.units) {
      if (!unit->status.ok()) block.status.Update(unit->status);
    }
    if (block.status.ok()) {
      size_t n = 0;
      for (const Slice& slice : block.slices) n += slice.count;
      block.out.records.resize(n);
      std::string_view* out = block.out.records.data();
      uint64_t bytes = 0;
      for (const Slice& slice : block.slices) {
        const std::string_view* views = slice.unit->views + slice.first;
        for (uint32_t i = 0; i < slice.count; ++i) {
          *out++ = views[i];
          bytes += views[i].size();
        }
        if (slice.unit->any_damaged) {
          FindDamaged(slice, out - slice.count - block.out.records.data(), &block);
        }
      }
      block.frame_bytes = bytes + n * kFrameBytes;
      block.out.buffers.reserve(block.units.size());
      for (const std::shared_ptr<Unit>& unit : block.units) {
        block.out.buffers.push_back(unit->payloads);
      }
    }
    block.slices.clear();
    block.units.clear();
    bool wake = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      block.done = true;
      if (!options_.deterministic) {
        const auto same = [&](const std::shared_ptr<Block>& b) { return b.get() == &block; };
        done_.push_back(*std::find_if(blocks_.begin(), blocks_.end(), same));
      }
      wake = consumer_waits_ && ReadyEnough();
    }
    if (wake) delivery_.notify_one();
  }

  // Marks the damaged records of a slice, which begins at `at` in the block.
  void FindDamaged(const Slice& slice, size_t at, Block* block) {
    for (const DamagedRecord& damaged : slice.unit->payloads->damaged) {
      const uint32_t index = slice.unit->IndexOf(selection_.ItemOf(damaged.record));
      if (index < slice.first || index >= slice.first + slice.count) continue;
      block->damaged.emplace_back(static_cast<uint32_t>(at + index - slice.first), &damaged);
    }
    std::sort(block->damaged.begin(), block->damaged.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  // `last`: what was counted of this engine before.
  void UpdateStats(const Engine& engine, EngineStats& last) {
    EngineStats now = engine.stats();
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.bytes_read += now.bytes_read - last.bytes_read;
    stats_.reads += now.requests - last.requests;
    stats_.max_queue_depth += now.max_depth - last.max_depth;
    if (stats_.io != now.mode) stats_.io = now.mode;
    if (!now.reason.empty() && stats_.io_reason != now.reason) stats_.io_reason = now.reason;
    stats_.io_registered = now.registered;
    last = std::move(now);
  }

  const std::shared_ptr<const ShardTable> table_;
  const ReaderOptions options_;
  const Selection selection_;
  const std::shared_ptr<const Order> order_;
  const ReadPlace whole_epoch_;  // how an epoch is shared from its first position on

  // Of the thread that plans.
  uint64_t plan_epoch_;
  uint64_t plan_position_;
  // Positions from here on are not delivered; beyond the order's size they are padding.
  uint64_t plan_end_ = 0;
  uint64_t plan_residue_ = 0;  // of this rank's positions, divided by the number of ranks
  uint64_t next_block_ = 0;
  std::vector<uint64_t> items_;
  // Units of which not all records have been planned, by the chunks that they overlap.
  absl::flat_hash_map<uint64_t, absl::InlinedVector<std::shared_ptr<Unit>, 1>> table_of_units_;
  static constexpr size_t kRecentUnits = 4096;
  std::vector<Unit*> recent_units_ = std::vector<Unit*>(kRecentUnits);
  // Units of which not all records are delivered, by the last position that one of them may have:
  // they leave the table behind it.
  std::multimap<uint64_t, std::shared_ptr<Unit>> cut_units_;
  // Blocks that end before it are of single records; pieces begin behind them. Of the first epoch.
  uint64_t singly_until_ = 0;
  uint64_t pieces_from_ = 0;
  std::unique_ptr<Block> pending_;  // planned, but the budget has no room

  const uint64_t first_epoch_;
  const std::shared_ptr<ByteBudget> budget_;
  const std::shared_ptr<BufferPool> pool_;
  const IoChoice choice_;
  const int thread_count_;
  const Divider chunk_divider_;
  const bool whole_pieces_;   // units are pieces of the order, not single records
  bool lanes_owned_ = false;  // each lane belongs to one rank
  bool ramp_ = false;
  size_t max_blocks_ = 0;  // planned ahead of the consumer
  uint64_t block_records_ = 0;
  // Of the consumer.
  uint64_t skipped_ = 0;
  uint64_t skipping_epoch_ = 0;
  uint64_t skipped_in_epoch_ = 0;
  std::string first_skipped_;  // of the epoch
  SalvagedShards salvaged_;

  mutable std::mutex mutex_;
  std::condition_variable work_;      // for the threads
  std::condition_variable delivery_;  // for the consumer
  bool stopping_ = false;
  bool planned_all_ = false;
  bool consumer_waits_ = false;
  bool planning_ = false;                      // a thread is in Plan
  bool plan_stuck_ = false;                    // it found no room, and nothing has changed since
  absl::Status failure_;                       // of planning: behind the blocks that are planned
  absl::Status fatal_;                         // of a thread: now
  std::deque<std::shared_ptr<Block>> blocks_;  // planned and not delivered, in their order
  std::deque<std::shared_ptr<Block>> done_;    // if not deterministic
  std::deque<std::shared_ptr<Unit>> to_read_;
  ReaderStats stats_;

  std::vector<std::unique_ptr<Engine>> engines_;  // one for each thread
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadRun>> ReadRun::Start(std::shared_ptr<const ShardTable> table,
                                                        const ReaderOptions& options,
                                                        const Selection& selection,
                                                        std::shared_ptr<const Order> order,
                                                        const ReadPlace& place, uint64_t position) {
  const bool whole_chunks = PlanMemory(*table, *order, options).whole_chunks;
  auto run = std::make_unique<ThreadedRun>(std::move(table), options, selection, std::move(order),
                                           whole_chunks, place, position);
  absl::Status status = run->StartThreads();
  if (!status.ok()) return status;
  return run;
}

MemoryPlan ReadRun::PlanMemory(const ShardTable& table, const Order& order,
                               const ReaderOptions& options) {
  const OrderSpec& spec = order.spec();
  const uint64_t mean = table.mean_bytes();
  // Of a lane that all ranks share, small records are read by each of them.
  const bool divided = LanesOwned(spec, options.world) || mean > kMergeGapBytes;
  const uint64_t span = divided ? order.span() / options.world + 1 : order.span();
  const uint64_t held = span * (mean + kViewBytes);
  MemoryPlan plan;
  plan.held_bytes = held + held / 8 + 8 * kBlockBytes;
  plan.budget_bytes = options.budget_bytes;
  const bool shuffled = spec.kind == OrderSpec::Kind::kShuffle;
  const bool exact = shuffled && spec.window == OrderSpec::kAll;
  plan.whole_chunks = !exact && (!shuffled || plan.held_bytes <= plan.budget_bytes);
  return plan;
}

}  // namespace shardfeed
