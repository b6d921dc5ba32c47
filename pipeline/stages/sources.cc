#include "pipeline/stages/sources.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "pipeline/rows/row_step.h"
#include "reader/order/leftover.h"
#include "reader/order/place.h"
#include "reader/reader.h"
#include "reader/unindexed_reader.h"

namespace shardfeed {
namespace {

// Rows in a batch of sources that have them in memory.
constexpr size_t kRows = 1024;

// Names the records at the positions of an order. Thread-safe.
class RecordNames {
 public:
  RecordNames(std::shared_ptr<const LazyShardTable> table, const ReaderOptions& options)
      : table_(std::move(table)) {
    options_.order = options.order;
    options_.records = options.records;
    options_.pack = options.pack;
  }

  std::string Name(uint64_t epoch, uint64_t position) {
    std::shared_ptr<Reader> reader;
    {
      MutexLock lock(mutex_);
      reader = reader_;
    }
    if (reader == nullptr) {
      // Without the mutex, since signal handlers may run. Another time, it may not be interrupted.
      absl::StatusOr<std::shared_ptr<Reader>> opened = Open();
      if (!opened.ok()) return std::string(opened.status().message());
      MutexLock lock(mutex_);
      if (reader_ == nullptr) reader_ = *std::move(opened);
      reader = reader_;
    }
    return reader->NameAt(epoch, position);
  }

 private:
  absl::StatusOr<std::shared_ptr<Reader>> Open() const {
    absl::StatusOr<std::shared_ptr<const ShardTable>> table = table_->Get();
    if (!table.ok()) return table.status();
    return Reader::Open(*std::move(table), options_);
  }

  const std::shared_ptr<const LazyShardTable> table_;
  ReaderOptions options_;
  Mutex mutex_;
  std::shared_ptr<Reader> reader_ ABSL_GUARDED_BY(mutex_);  // for its order only; reads nothing
};

class ShardsStage : public Stage {
 public:
  // Takes one of the two readers, which must be at the beginning of the epoch: the first one if
  // there are `numbers`.
  ShardsStage(std::unique_ptr<Reader> reader, std::unique_ptr<UnindexedReader> unindexed,
              const ReaderOptions& options, std::optional<RecordNumbers> numbers, uint64_t epoch,
              uint32_t source, std::shared_ptr<StageCounters> counters)
      : reader_(std::move(reader)),
        unindexed_(std::move(unindexed)),
        numbers_(std::move(numbers)),
        counters_(std::move(counters)),
        rank_(options.rank),
        end_(options.end),
        source_(source),
        place_{.epoch = epoch, .batch = options.batch, .world = options.world} {
    if (reader_ == nullptr) return;
    size_ = reader_->order().size();
    place_ = reader_->place();
  }

  absl::Status Next(Batch* out) override {
    auto block = std::make_shared<ReadBlock>();
    const auto start = std::chrono::steady_clock::now();
    absl::Status status =
        reader_ != nullptr ? reader_->Next(block.get()) : unindexed_->Next(block.get());
    Count(block->records.size(), std::chrono::steady_clock::now() - start);
    *out = Batch();
    if (!status.ok() || block->records.empty()) return status;
    if (size_ == UINT64_MAX && unindexed_->indexed()) Indexed().IgnoreError();
    const size_t n = block->records.size();
    if (block->place != block->position) elsewhere_ = true;
    if (place_.epoch != block->epoch) place_.from = 0;
    place_.epoch = block->epoch;
    place_.position = block->place + n * place_.world - rank_;
    out->rows = n;
    out->spec = RecordSpec();
    out->columns = {{reinterpret_cast<char*>(block->records.data())}};
    if (block->rows.empty()) {
      out->origins = {{0, source_, block->epoch, block->position, block->stride}};
    } else {
      place_ = reader_->place();
      size_t first = 0;
      for (const PackedRow& row : block->rows) {
        out->origins.push_back({first, source_, block->epoch, row.position, 1});
        first += row.records;
      }
    }
    out->padded = block->padded;
    out->damaged = block->damaged;
    if (numbers_) {
      const absl::StatusOr<std::vector<uint64_t>> numbers = reader_->RecordsOf(*block);
      if (!numbers.ok()) return numbers.status();
      numbers_->AddTo(*numbers, out);
    }
    out->memory.push_back(std::move(block));
    return absl::OkStatus();
  }

  // Saves a ReadPlace, which is the same for all ranks, and the past of a mixture.
  void Save(StateWords* words) const override {
    for (uint64_t word : {place_.epoch, place_.position, place_.from, place_.batch, place_.world}) {
      words->push_back(word);
    }
    if (Mixes()) words->push_back(reader_->PastOf(place_));
  }
  absl::Status Load(StateReader* words) override {
    ReadPlace place;
    for (uint64_t* word :
         {&place.epoch, &place.position, &place.from, &place.batch, &place.world}) {
      *word = words->Read();
    }
    const uint64_t past = Mixes() ? words->Read() : 0;
    if (!words->ok()) return words->status();
    if (absl::Status status = place.Check(); !status.ok()) return status;
    if (Mixes()) {
      const MixPast mixed = reader_->past();
      if (past != reader_->PastOf(place)) return mixed.Differs(place.epoch, place.position);
      // The last round of an epoch may be filled up.
      const uint64_t round = reader_->shared_pack() == nullptr ? place.world * place.batch : 0;
      if (!mixed.Has(place.position - std::min(place.position, round))) {
        return absl::FailedPreconditionError(fmt::format(
            "the state is at position {} of epoch {}, but epochs of this mixture have {}: "
            "its length has changed before what was delivered",
            place.position, place.epoch, CountText(reader_->shared_mix()->size(), "record")));
      }
    }
    // No index is needed at the walk's own position.
    const bool there = place == place_;
    if (there && unindexed_ != nullptr && !unindexed_->indexed()) return absl::OkStatus();
    absl::StatusOr<Reader*> reader = Indexed();
    if (!reader.ok()) return reader.status();
    (*reader)->GoTo(place);
    place_ = (*reader)->place();
    return absl::OkStatus();
  }
  bool Advance(uint64_t elements, StateWords* state) const override {
    StateWords& words = *state;
    // A block belongs to one epoch; after an epoch's last record, the place is in the next one.
    const ReadPlace place = {words[0], words[1], words[2], words[3], words[4]};
    if (!Move(elements, place, &words)) return false;
    if (Mixes()) words[5] = reader_->PastOf({words[0], words[1], words[2], words[3], words[4]});
    return true;
  }
  bool AdvancePast(const RowOrigin& last, StateWords* state) const override {
    StateWords& words = *state;
    const bool packs = reader_ != nullptr && reader_->shared_pack() != nullptr;
    if (packs || elsewhere_ || last.source != source_ || last.later != 0) return false;
    const ReadPlace place = {words[0], words[1], words[2], words[3], words[4]};
    const bool over = size_ != UINT64_MAX && place.position >= place.End(size_, end_);
    const ReadPlace begin = over ? ReadPlace{.epoch = place.epoch + 1} : place;
    const uint64_t world = place_.world;
    // A row that repeats another one, at the end of an epoch, has its position.
    if (last.epoch != begin.epoch || last.position < begin.position + rank_) return false;
    const uint64_t rest = last.position - begin.position - rank_;
    return rest % world == 0 && Advance(rest / world + 1, state);
  }

 private:
  bool Mixes() const { return reader_ != nullptr && reader_->shared_mix() != nullptr; }

  // Moves the place in the words past further elements. Returns false if there are none.
  bool Move(uint64_t elements, const ReadPlace& place, StateWords* state) const {
    StateWords& words = *state;
    if (reader_ != nullptr && reader_->shared_pack() != nullptr) {
      const absl::StatusOr<std::optional<ReadPlace>> after = reader_->PlaceAfter(place, elements);
      if (!after.ok() || !*after) return false;
      words[0] = (*after)->epoch;
      words[1] = (*after)->position;
      words[2] = (*after)->from;
      return true;
    }
    const uint64_t size = size_;
    if (size != UINT64_MAX && place.position >= place.End(size, end_)) {
      ++words[0];
      words[1] = words[2] = 0;
    }
    words[1] += elements * place_.world;
    return true;
  }

 private:
  // Returns the reader, after waiting for the indexes.
  absl::StatusOr<Reader*> Indexed() {
    if (reader_ != nullptr) return reader_.get();
    absl::StatusOr<Reader*> reader = unindexed_->Indexed();
    if (reader.ok()) size_ = (*reader)->order().size();
    return reader;
  }

  void Count(uint64_t records, std::chrono::nanoseconds waited) {
    const ReaderStats stats = reader_ != nullptr ? reader_->stats() : unindexed_->stats();
    counters_->batches += records > 0 ? 1 : 0;
    counters_->rows += records;
    counters_->bytes += stats.bytes - bytes_;
    bytes_ = stats.bytes;
    counters_->wait_out_ns += waited.count();
    counters_->peak_bytes = std::max<uint64_t>(counters_->peak_bytes, stats.peak_buffer_bytes);
  }

  const std::unique_ptr<Reader> reader_;
  const std::unique_ptr<UnindexedReader> unindexed_;
  const std::optional<RecordNumbers> numbers_;
  const std::shared_ptr<StageCounters> counters_;
  uint64_t bytes_ = 0;  // bytes that the reader has delivered
  const uint64_t rank_;
  const EpochEnd end_;
  const uint32_t source_;
  ReadPlace place_;  // place of all ranks after what Next has delivered
  // Records of an epoch; UINT64_MAX while there are no indexes, when everything delivered belongs
  // to the first epoch. Advance may be called while another thread calls Next.
  std::atomic<uint64_t> size_ = UINT64_MAX;
  // Whether positions are not those that places count in: see ReadBlock::place.
  std::atomic<bool> elsewhere_ = false;
};

class RangeStage : public Stage {
 public:
  RangeStage(int64_t start, int64_t stop, int64_t step, std::shared_ptr<const RowSpec> spec,
             uint64_t epoch, uint32_t source)
      : start_(start),
        step_(step),
        size_(RangeSize(start, stop, step)),
        spec_(std::move(spec)),
        epoch_(epoch),
        source_(source) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    const size_t n = std::min<uint64_t>(kRows, size_ - position_);
    if (n == 0) return absl::OkStatus();
    out->rows = n;
    out->spec = spec_;
    AllocateFixedColumns(out);
    int64_t* values = reinterpret_cast<int64_t*>(out->columns[0].data);
    for (size_t i = 0; i < n; ++i) {
      // Without a sign, for the difference of two values may be more than an int64_t holds.
      values[i] = static_cast<int64_t>(static_cast<uint64_t>(start_) +
                                       (position_ + i) * static_cast<uint64_t>(step_));
    }
    out->origins = {{0, source_, epoch_, position_, 1}};
    position_ += n;
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override { words->push_back(position_); }
  absl::Status Load(StateReader* words) override {
    position_ = words->ReadUpTo(size_);
    return words->status();
  }

 private:
  const int64_t start_;
  const int64_t step_;
  const uint64_t size_;
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t epoch_;
  const uint32_t source_;
  uint64_t position_ = 0;
};

class RowsStage : public Stage {
 public:
  RowsStage(Batch rows, uint64_t epoch, uint32_t source) : rows_(std::move(rows)) {
    rows_.origins = {{0, source, epoch, 0, 1}};
  }

  absl::Status Next(Batch* out) override {
    const size_t n = std::min(kRows, rows_.rows - position_);
    *out = n == 0 ? Batch() : rows_.Slice(position_, n);
    position_ += n;
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override { words->push_back(position_); }
  absl::Status Load(StateReader* words) override {
    position_ = words->ReadUpTo(rows_.rows);
    return words->status();
  }

 private:
  Batch rows_;
  size_t position_ = 0;
};

// Buffers for the readers of a source, of which there is one for each epoch.
struct ReadBuffers {
  ~ReadBuffers() {
    if (pool != nullptr) pool->Close();
  }
  std::once_flag once;
  std::shared_ptr<BufferPool> pool;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> MakeShardsStage(std::shared_ptr<const LazyShardTable> table,
                                                       ReaderOptions options,
                                                       const NumberColumns& numbers, uint64_t epoch,
                                                       uint32_t source, const void* key,
                                                       std::shared_ptr<RunContext> context) {
  options.deterministic = context->deterministic;
  if (options.threads == 0) options.threads = context->threads;
  if (options.budget_bytes == 0) options.budget_bytes = context->reader_budget_bytes;
  if (options.budget_bytes > 0) {
    const std::shared_ptr<ReadBuffers> kept = context->Kept<ReadBuffers>(key);
    std::call_once(kept->once, [&] {
      kept->pool = BufferPool::Create(options.budget_bytes, BufferPool::Memory::kSlabs);
    });
    options.buffers = kept->pool;
  }
  if (options.epochs) *options.epochs += epoch;
  if (context->merged && context->merged->leftover.epoch >= epoch) {
    options.leftover = std::make_shared<const Leftover>(context->merged->leftover);
  }
  const std::shared_ptr<StageCounters> counters =
      context->Counters(key, "read", [&](StageCounters& c) {
        c.threads = c.workers = options.threads;
        c.reads = true;
      });
  options.on_work = [counters, trace = context->trace, on_work = std::move(options.on_work)](
                        std::string_view what, uint64_t begin_ns, uint64_t end_ns,
                        uint64_t records) {
    counters->busy_ns += end_ns - begin_ns;
    if (trace) trace->Add(std::string(what), begin_ns, end_ns, records);
    if (on_work) on_work(what, begin_ns, end_ns, records);
  };
  std::unique_ptr<Reader> reader;
  std::unique_ptr<UnindexedReader> unindexed;
  const bool at_begin = epoch == 0 && !options.leftover;
  if (at_begin && !table->made() && !numbers.any() && UnindexedReader::CanRead(options)) {
    absl::StatusOr<std::unique_ptr<UnindexedReader>> opened =
        UnindexedReader::Open(table, options, context->stop.get_token());
    if (!opened.ok()) return opened.status();
    unindexed = *std::move(opened);
  } else {
    absl::StatusOr<std::shared_ptr<const ShardTable>> made = table->Get(context->stop.get_token());
    if (!made.ok()) return made.status();
    absl::StatusOr<std::unique_ptr<Reader>> opened = Reader::Open(*std::move(made), options);
    if (!opened.ok()) return opened.status();
    reader = *std::move(opened);
    if (!at_begin && !options.leftover) reader->Seek(epoch, 0);
    if (reader->shared_pack() != nullptr) {
      const std::shared_ptr<KeptPack> kept = context->Kept<KeptPack>(key);
      MutexLock lock(kept->mutex);
      kept->plan = reader->shared_pack();
    }
  }
  if (reader != nullptr && reader->shared_mix() != nullptr) context->SetPast(reader->past());
  std::optional<RecordNumbers> record_numbers;
  if (numbers.any()) {
    record_numbers.emplace(numbers, options.order.mixture.get(), reader->table());
  }
  // Batches may outlive the stage.
  context->SetDescriber(source,
                        [names = std::make_shared<RecordNames>(std::move(table), options)](
                            uint64_t e, uint64_t position) { return names->Name(e, position); });
  return std::make_unique<ShardsStage>(std::move(reader), std::move(unindexed), options,
                                       std::move(record_numbers), epoch, source, counters);
}

uint64_t RangeSize(int64_t start, int64_t stop, int64_t step) {
  // Without a sign, for the difference of two values may be more than an int64_t holds.
  const auto from = static_cast<uint64_t>(start);
  const auto to = static_cast<uint64_t>(stop);
  if (step > 0 && stop > start) return 1 + (to - from - 1) / static_cast<uint64_t>(step);
  if (step < 0 && stop < start) return 1 + (from - to - 1) / -static_cast<uint64_t>(step);
  return 0;
}

std::unique_ptr<Stage> MakeRangeStage(int64_t start, int64_t stop, int64_t step,
                                      std::shared_ptr<const RowSpec> spec, uint64_t epoch,
                                      uint32_t source) {
  return std::make_unique<RangeStage>(start, stop, step, std::move(spec), epoch, source);
}

std::unique_ptr<Stage> MakeRowsStage(Batch rows, uint64_t epoch, uint32_t source) {
  return std::make_unique<RowsStage>(std::move(rows), epoch, source);
}

}  // namespace shardfeed
