#include "reader/run/run.h"

#include <algorithm>
#include <deque>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/work_stop.h"
#include "io/budget.h"
#include "io/buffer.h"
#include "io/engine.h"
#include "io/engine_choice.h"
#include "io/parallel.h"
#include "io/thread.h"
#include "net/remote_engine.h"
#include "reader/plan/read_plan.h"
#include "reader/plan/unit.h"
#include "reader/run/read_unit.h"
#include "reader/run/salvaged_shards.h"
#include "reader/run/skip_count.h"
#include "reader/shards/io_choice.h"

namespace shardfeed {
namespace {

constexpr size_t kWakeBlocks = 4;

// A run processes the blocks and units of a ReadPlanner. A planned block queues its new units for
// reading. Blocks are planned in order as the budget allows; the one that the consumer waits for
// always is. A unit leaves memory when the last block with one of its records is released.
//
// Every thread does any kind of work: planning (one thread at a time), reading and checking.
// `mutex_` guards what they share; the planner belongs to the thread that has set `planning_`.
// Memory is never released under `mutex_`, because the budget then calls back.
class ThreadedRun : public ReadRun {
 public:
  ThreadedRun(std::shared_ptr<const ShardTable> table, const ReaderOptions& options,
              const Selection& selection, std::shared_ptr<const Order> order,
              std::shared_ptr<const PackPlan> pack, bool whole_chunks, const ReadPlace& place,
              uint64_t position)
      : table_(std::move(table)),
        options_(options),
        selection_(selection),
        order_(std::move(order)),
        budget_(std::make_shared<ByteBudget>(
            options.budget_bytes - ClientBytes(*table_, order_->spec(), options.budget_bytes))),
        pool_(options.buffers != nullptr
                  ? options.buffers
                  : BufferPool::Create(options.budget_bytes, BufferPool::Memory::kSlabs)),
        choice_(ChooseIo(*table_, order_->spec(), options)),
        thread_count_(ThreadCount(options.threads)),
        planner_(table_, options, selection, order_, std::move(pack),
                 {.whole_pieces = whole_chunks,
                  .cached = choice_.engine.inline_reads,
                  .shared_buffers = !choice_.engine.direct,
                  .remote = choice_.fetched,
                  .make_unit = [] { return std::make_shared<Unit>(); }},
                 place, position),
        skips_(options, order_->size()) {
    // A device should be kept busy. Cached data is best used while the CPU caches have it.
    max_blocks_ = choice_.engine.inline_reads ? 6 * thread_count_ : 4 * choice_.engine.depth;
    // A store occasionally delays a request, so as many others continue as the budget has room for.
    if (choice_.fetched)
      max_blocks_ = std::max(max_blocks_, options.budget_bytes / kReadBlockBytes);
    stats_.whole_chunks = whole_chunks;
    stats_.threads = thread_count_;
    stats_.io_reason = choice_.reason;
  }

  ~ThreadedRun() override {
    {
      MutexLock lock(mutex_);
      stop_.request_stop();
    }
    for (const std::unique_ptr<Engine>& engine : engines_) engine->Wake();
    work_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
    budget_->SetOnRoom(nullptr);
    engines_.clear();
    if (options_.buffers == nullptr) pool_->Close();
  }

  absl::Status StartThreads() {
    // Engines are made here, so that the consumer gets an error of making one.
    for (int i = 0; i < thread_count_; ++i) {
      EngineOptions options = choice_.engine;
      options.pool = pool_;
      // Each request holds a file open.
      const auto max_open = static_cast<int>(table_->max_open());
      options.depth = std::clamp(choice_.engine.depth / thread_count_, 1, max_open);
      absl::StatusOr<std::unique_ptr<Engine>> engine =
          choice_.remote ? MakeRemoteEngine(options.depth, pool_,
                                            {.cached = !choice_.fetched, .spread_first = true})
                         : MakeEngine(options);
      if (!engine.ok()) return engine.status();
      engines_.push_back(*std::move(engine));
    }
    budget_->SetOnRoom([this] {
      {
        MutexLock lock(mutex_);
        plan_stuck_ = false;
      }
      work_.NotifyOne();
    });
    threads_.reserve(thread_count_);
    for (int i = 0; i < thread_count_; ++i) {
      absl::StatusOr<std::thread> thread = StartThread([this, i] {
        const WorkStop wanted(stop_.get_token());
        absl::Status status = CatchAll([&] { Work(*engines_[i]); });
        if (status.ok()) return;
        {
          MutexLock lock(mutex_);
          fatal_ = std::move(status);
        }
        delivery_.NotifyAll();
      });
      if (!thread.ok()) return i == 0 ? thread.status() : absl::OkStatus();
      threads_.push_back(*std::move(thread));
    }
    return absl::OkStatus();
  }

  absl::Status Next(ReadBlock* out) override {
    std::shared_ptr<Block> block;
    {
      MutexLock lock(mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Ready(); };
      consumer_waits_ = true;
      if (!ready()) {
        const Stopwatch wait;
        // The block that is now at the head is planned regardless of the budget.
        plan_stuck_ = false;
        work_.NotifyOne();
        AwaitWanted(delivery_, lock, ready);
        ++stats_.stalls;
        stats_.stall_seconds += wait.Seconds();
      }
      consumer_waits_ = false;
      if (!ready()) return absl::CancelledError("interrupted");
      if (!fatal_.ok()) return fatal_;
      if (blocks_.empty()) {
        absl::Status failure = failure_;
        lock.Unlock();
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
    work_.NotifyOne();
    if (!block->status.ok()) return block->status;
    for (const auto& [index, damaged] : block->damaged) {
      absl::Status skipped = skips_.Add(block->out.epoch, *damaged);
      if (!skipped.ok()) return skipped;
      block->out.damaged.push_back(index);
    }
    *out = std::move(block->out);
    MutexLock lock(mutex_);
    stats_.records += out->records.size() - out->damaged.size();
    stats_.bytes += block->frame_bytes;
    stats_.skipped = skips_.count();
    return absl::OkStatus();
  }

  ReaderStats stats() const override {
    MutexLock lock(mutex_);
    ReaderStats stats = stats_;
    stats.peak_buffer_bytes = budget_->peak();
    return stats;
  }

 private:
  // Whether the consumer has something to take.
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!fatal_.ok()) return true;
    if (blocks_.empty()) return planned_all_;
    return options_.deterministic ? blocks_.front()->done : !done_.empty();
  }

  // Whether to wake a consumer that waits. Waking costs a tenth of reading a block from the page
  // cache, so several blocks are collected there. (Those of a shuffle are complete in bursts. A
  // thread without work wakes the consumer for any block.)
  bool ReadyEnough() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!Ready()) return false;
    const bool shuffled = order_->spec().kind == OrderSpec::Kind::kShuffle;
    if (!choice_.engine.inline_reads || shuffled || !options_.deterministic) return true;
    if (blocks_.empty() || blocks_.front()->number < kRampBlocks) return true;
    for (size_t i = 0; i < kWakeBlocks; ++i) {
      if (i >= blocks_.size() || !blocks_[i]->done) return false;
    }
    return true;
  }

  struct Block;
  struct Unit : ReadUnit {
    // Guarded by the run's mutex_.
    bool ready = false;
    absl::Status status;
    absl::InlinedVector<Block*, 4> waiting;
  };

  struct Block : PlannedBlock {
    // Guarded by the run's mutex_.
    size_t units_missing = 0;
    bool done = false;
    absl::Status status;
    // Filled when all units are complete.
    ReadBlock out;
    uint64_t frame_bytes = 0;
    std::vector<std::pair<uint32_t, const DamagedRecord*>> damaged;
  };

  static Unit& UnitOf(const std::shared_ptr<PlannedUnit>& unit) {
    return static_cast<Unit&>(*unit);
  }
  static const Unit& UnitOf(const UnitSlice& slice) {
    return static_cast<const Unit&>(*slice.unit);
  }

  // ---- Planning

  // Plans until something is queued for reading (and returns true), the budget is used up, or the
  // planned blocks are far enough ahead of the consumer.
  bool Plan() {
    while (true) {
      if (pending_ == nullptr) {
        {
          MutexLock lock(mutex_);
          if (stop_.stop_requested()) return false;
          if (blocks_.size() >= max_blocks_) {
            plan_stuck_ = true;
            return false;
          }
        }
        auto block = std::make_unique<Block>();
        const absl::StatusOr<bool> planned = planner_.Next(block.get());
        if (!planned.ok() || !*planned) {
          {
            MutexLock lock(mutex_);
            planned_all_ = true;
            if (!planned.ok()) failure_ = planned.status();
          }
          delivery_.NotifyAll();
          return false;
        }
        block->Describe(&block->out);
        pending_ = std::move(block);
      }
      if (!budget_->TryReserve(pending_->new_memory)) {
        MutexLock lock(mutex_);
        if (stop_.stop_requested()) return false;
        if (blocks_.empty() && consumer_waits_) {
          budget_->ForceReserve(pending_->new_memory);
        } else {
          plan_stuck_ = true;
          budget_->NotifyOnRelease();
          // Memory that was released just before is not announced, so try again.
          if (!budget_->TryReserve(pending_->new_memory)) return false;
          plan_stuck_ = false;
        }
      }
      for (const std::shared_ptr<PlannedUnit>& planned : pending_->new_units) {
        Unit& unit = UnitOf(planned);
        unit.payloads.reservation.emplace(budget_, unit.memory);
      }
      const std::shared_ptr<Block> block = std::move(pending_);
      std::shared_ptr<Block> ready;
      {
        MutexLock lock(mutex_);
        for (const std::shared_ptr<PlannedUnit>& planned : block->units) {
          Unit& unit = UnitOf(planned);
          if (unit.ready) continue;
          ++block->units_missing;
          unit.waiting.push_back(block.get());
        }
        blocks_.push_back(block);
        for (std::shared_ptr<PlannedUnit>& unit : block->new_units) {
          to_read_.push_back(std::static_pointer_cast<Unit>(std::move(unit)));
        }
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
    // Units with extents that are still to be read, by slot. A tag combines a slot and the number
    // of an extent.
    std::vector<std::shared_ptr<Unit>> slots;
    std::vector<uint64_t> free_slots;
    std::deque<std::pair<uint64_t, uint32_t>> to_submit;  // slot, extent
    std::deque<std::shared_ptr<Unit>> read;               // and not yet checked
    const size_t depth = engine.depth();
    EngineStats counted;
    while (true) {
      if (stop_.stop_requested()) return;
      // Plan before the queue is empty, so that other threads need not wait for it.
      if (engine.reads_in_wait()) TryPlan(2 * static_cast<size_t>(thread_count_));
      // Take as many units as keep the engine busy, but only one if reads happen within Wait, where
      // nothing is read while this thread checks.
      while (engine.reads_in_wait() ? engine.outstanding() + to_submit.size() == 0
                                    : engine.outstanding() + to_submit.size() < depth) {
        std::shared_ptr<Unit> unit;
        {
          MutexLock lock(mutex_);
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
          const Extent& extent = unit->extents[i];
          if (extent.compressed() && extent.file_bytes == 0) continue;
          to_submit.emplace_back(slot, static_cast<uint32_t>(i));
          ++unit->results_missing;
          if (extent.compressed()) {
            unit->rooms.resize(unit->extents.size());
          } else {
            shared_bytes += extent.file_bytes;
          }
        }
        if (unit->results_missing == 0) {
          free_slots.push_back(slot);
          FinishUnit(*unit);
          continue;
        }
        if (shared_bytes > 0 && planner_.SharesBuffer(*unit)) {
          unit->buffer = pool_->Allocate(shared_bytes);
        }
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
          requests.push_back({*std::move(file), extent.file_offset, extent.file_bytes, tag});
          ReadRequest& request = requests.back();
          request.has_checksums = extent.has_checksums() && options_.check_crc == CrcCheck::kAll;
          if (extent.compressed()) {
            // Past the page cache, reads have whole pages of their own.
            if (!choice_.engine.direct) unit.rooms[i] = pool_->Allocate(RoomBytes(extent));
            request.into = unit.rooms[i];
            request.into_offset = kInflateRoomBefore;
          } else if (unit.buffer != nullptr) {
            request.into = unit.buffer;
            request.into_offset = unit.buffer_used;
            unit.buffer_used += extent.file_bytes;
          }
        } else {
          results.push_back({tag, file.status()});
        }
      }
      if (!requests.empty()) engine.Submit(requests);
      if (!read.empty()) {
        // Units that were read at about the same time are checked one after another: meanwhile, the
        // place of each is taken.
        if (engine.outstanding() < depth && TryPlan()) continue;
        FinishUnit(*read.front());
        read.pop_front();
        engine.Wait(0, &results);
        UpdateStats(engine, counted);
      } else if (engine.outstanding() > 0) {
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
        read.push_back(std::exchange(slots[slot], nullptr));
        free_slots.push_back(slot);
      }
      results.clear();
      // While this thread checks, nobody reads: the unit is still in the processor's cache.
      while (engine.reads_in_wait() && !read.empty()) {
        FinishUnit(*read.front());
        read.pop_front();
      }
      if (!read.empty() || engine.outstanding() > 0 || !to_submit.empty() || TryPlan()) continue;
      // Nothing to read and nothing to plan: until the budget has room, or the consumer waits.
      MutexLock lock(mutex_);
      const auto any_work = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stop_.stop_requested() || !to_read_.empty() || MayPlan();
      };
      if (consumer_waits_ && Ready() && !any_work()) delivery_.NotifyOne();
      work_.Wait(lock, any_work);
    }
  }

  bool MayPlan() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !planning_ && !planned_all_ && !plan_stuck_;
  }

  // Plans, unless another thread does or `enough` units wait to be read.
  bool TryPlan(size_t enough = SIZE_MAX) {
    {
      MutexLock lock(mutex_);
      if (!MayPlan() || to_read_.size() >= enough) return false;
      planning_ = true;
    }
    const bool queued = Plan();
    {
      MutexLock lock(mutex_);
      planning_ = false;
    }
    work_.NotifyAll();
    return queued;
  }

  // Checks a unit whose reads are complete, and hands it to the blocks that wait for it.
  void FinishUnit(Unit& unit) {
    // The last block with a record of the unit may be delivered, and released, before this function
    // ends.
    const std::shared_ptr<PlannedUnit> keep = unit.shared_from_this();
    const uint64_t start = options_.on_work ? NowNs() : 0;
    uint64_t inflated = 0;
    const absl::Status status = CheckUnit(*table_, options_, *pool_, salvaged_, &unit, &inflated);
    if (options_.on_work) options_.on_work("check", start, NowNs(), unit.payloads.views.size());
    std::vector<Block*> complete;
    {
      MutexLock lock(mutex_);
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

  // Fills a block whose units are all complete. No other thread uses it meanwhile.
  void Assemble(Block& block) {
    for (const std::shared_ptr<PlannedUnit>& unit : block.units) {
      if (!UnitOf(unit).status.ok()) block.status.Update(UnitOf(unit).status);
    }
    if (block.status.ok()) {
      size_t n = 0;
      for (const UnitSlice& slice : block.slices) n += slice.count;
      block.out.records.resize(n);
      std::string_view* out = block.out.records.data();
      uint64_t bytes = 0;
      for (const UnitSlice& slice : block.slices) {
        const Unit& unit = UnitOf(slice);
        const std::string_view* views = unit.views + slice.first;
        for (uint32_t i = 0; i < slice.count; ++i) {
          *out++ = views[i];
          bytes += views[i].size();
        }
        if (unit.any_damaged) {
          FindDamaged(slice, out - slice.count - block.out.records.data(), &block);
        }
      }
      block.frame_bytes = bytes + n * kFrameBytes;
      block.out.buffers.reserve(block.units.size());
      for (std::shared_ptr<PlannedUnit>& unit : block.units) {
        block.out.buffers.push_back(std::move(unit));
      }
    }
    block.slices.clear();
    block.units.clear();
    bool wake = false;
    {
      MutexLock lock(mutex_);
      block.done = true;
      if (!options_.deterministic) {
        const auto same = [&](const std::shared_ptr<Block>& b) { return b.get() == &block; };
        done_.push_back(*std::find_if(blocks_.begin(), blocks_.end(), same));
      }
      wake = consumer_waits_ && ReadyEnough();
    }
    if (wake) delivery_.NotifyOne();
  }

  // Marks the damaged records of a slice, which begins at `at` in the block.
  void FindDamaged(const UnitSlice& slice, size_t at, Block* block) {
    std::unordered_map<uint64_t, const DamagedRecord*> by_record;
    for (const DamagedRecord& damaged : UnitOf(slice).payloads.damaged) {
      by_record.emplace(damaged.record, &damaged);
    }
    for (uint32_t i = 0; i < slice.count; ++i, ++at) {
      const auto found = by_record.find(selection_.RecordAt(slice.unit->ItemOf(slice.first + i)));
      if (found != by_record.end()) block->damaged.emplace_back(at, found->second);
    }
  }

  // `last` holds what was already counted for this engine.
  void UpdateStats(const Engine& engine, EngineStats& last) {
    EngineStats now = engine.stats();
    MutexLock lock(mutex_);
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
  const std::shared_ptr<ByteBudget> budget_;
  const std::shared_ptr<BufferPool> pool_;
  const IoChoice choice_;
  const int thread_count_;
  // Used by the thread that plans.
  ReadPlanner planner_;
  std::unique_ptr<Block> pending_;  // planned, but the budget has no room
  std::stop_source stop_;           // of the threads; requested with mutex_
  size_t max_blocks_ = 0;           // planned ahead of the consumer
  // Used by the consumer only.
  SkipCount skips_;
  SalvagedShards salvaged_;

  mutable Mutex mutex_;
  CondVar work_;      // signals work to the threads
  CondVar delivery_;  // signals blocks to the consumer
  bool planned_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool consumer_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool planning_ ABSL_GUARDED_BY(mutex_) = false;    // a thread is in Plan
  bool plan_stuck_ ABSL_GUARDED_BY(mutex_) = false;  // found no room, and nothing has changed since
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);     // of planning; reported after what was planned
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);       // error of a thread, reported at once
  std::deque<std::shared_ptr<Block>> blocks_ ABSL_GUARDED_BY(mutex_);  // planned, not delivered
  std::deque<std::shared_ptr<Block>> done_ ABSL_GUARDED_BY(mutex_);    // if not deterministic
  std::deque<std::shared_ptr<Unit>> to_read_ ABSL_GUARDED_BY(mutex_);
  ReaderStats stats_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::unique_ptr<Engine>> engines_;  // one engine per thread
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadRun>> ReadRun::Start(std::shared_ptr<const ShardTable> table,
                                                        const ReaderOptions& options,
                                                        const Selection& selection,
                                                        std::shared_ptr<const Order> order,
                                                        std::shared_ptr<const PackPlan> pack,
                                                        const ReadPlace& place, uint64_t position) {
  const MemoryPlan memory = PlanMemory(*table, *order, options);
  absl::Status status = CheckMemory(*table, *order, memory);
  if (!status.ok()) return status;
  auto run = std::make_unique<ThreadedRun>(std::move(table), options, selection, std::move(order),
                                           std::move(pack), memory.whole_chunks, place, position);
  status = run->StartThreads();
  if (!status.ok()) return status;
  return run;
}

}  // namespace shardfeed
