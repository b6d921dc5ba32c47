#include "reader/reader.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "base/mutex.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/page_cache.h"
#include "nlohmann/json.hpp"
#include "reader/order/leftover.h"
#include "reader/order/permutation.h"
#include "reader/plan/read_plan.h"
#include "reader/run/shared_run.h"
#include "reader/shards/io_choice.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMinBudget = 64 << 20;
constexpr uint64_t kMaxDefaultBudget = 1 << 30;
// The throughput of a store grows with the number of bytes in flight.
constexpr uint64_t kMinRemoteBudget = 512 << 20;
// A range of a store is inflated at once to at most this many times its size.
constexpr double kMostInflated = 8;
constexpr int kStateVersion = 2;

// How much content a range of a store has.
uint64_t RangeContent(const ShardTable& table) {
  const double ratio = static_cast<double>(table.stream_bytes()) /
                       static_cast<double>(std::max<uint64_t>(1, table.file_bytes()));
  return static_cast<uint64_t>(kRemoteReadBytes * std::clamp(ratio, 1.0, kMostInflated));
}

// The records of a mixture's sources, one source after the other, and what its order needs to know
// of each.
absl::StatusOr<Selection> SelectSources(const ShardTable& table, const Mixture& mixture,
                                        std::vector<MixPart>* parts) {
  size_t shards = 0;
  for (const MixSource& source : mixture.sources) shards += source.shards;
  if (shards != table.num_shards()) {
    return absl::InvalidArgumentError(fmt::format("mix: the sources have {}, but {} are read",
                                                  CountText(shards, "shard"), table.num_shards()));
  }
  std::vector<RecordRange> ranges;
  size_t shard = 0;
  for (const MixSource& source : mixture.sources) {
    const uint64_t begin = table.begins()[shard];
    MixPart part;
    uint64_t bytes = 0;
    for (const size_t end = shard + source.shards; shard < end; ++shard) {
      const IndexSummary& summary = table.summary(shard);
      bytes += summary.stream_bytes;
      for (uint64_t number :
           {summary.records, summary.stream_bytes, uint64_t{summary.records_digest}}) {
        part.fingerprint = DeriveKey(part.fingerprint, number);
      }
    }
    const uint64_t records = table.begins()[shard] - begin;
    part.mean_bytes = bytes / std::max<uint64_t>(1, records);
    const std::vector<RecordRange> all = {{0, records}};
    const absl::StatusOr<Selection> own =
        Selection::Ranges(source.records ? *source.records : all, records);
    if (!own.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("mix: '{}': {}", source.name, std::string(own.status().message())));
    }
    own->ForEachRange(0, own->size(), [&](uint64_t first, uint64_t count) {
      ranges.push_back({begin + first, count});
      if (!source.records) return;
      part.fingerprint = DeriveKey(DeriveKey(part.fingerprint, first), count);
    });
    part.items = own->size();
    parts->push_back(part);
  }
  return Selection::Ranges(ranges, table.num_records());
}

// The order of a mixture. Its tables take milliseconds to make, and elements that are asked for one
// by one need it each time, so the last ones are kept.
absl::StatusOr<std::shared_ptr<const MixOrder>> MixOrderOf(const OrderSpec& spec,
                                                           std::vector<MixPart> parts) {
  struct Kept {
    OrderSpec spec;  // keeps the mixture, so that no other one gets its address
    std::vector<MixPart> parts;
    std::shared_ptr<const MixOrder> order;
  };
  struct Cache {
    Mutex mutex;
    std::deque<Kept> orders ABSL_GUARDED_BY(mutex);
  };
  constexpr size_t kMost = 4;
  static Cache& cache = *new Cache;
  const auto is_same_part = [](const MixPart& a, const MixPart& b) {
    return a.items == b.items && a.mean_bytes == b.mean_bytes && a.fingerprint == b.fingerprint;
  };
  const auto is_same = [&](const Kept& kept) {
    const OrderSpec& other = kept.spec;
    return other.mixture == spec.mixture && other.kind == spec.kind && other.seed == spec.seed &&
           other.window == spec.window && other.chunk == spec.chunk && other.lanes == spec.lanes &&
           std::equal(parts.begin(), parts.end(), kept.parts.begin(), kept.parts.end(),
                      is_same_part);
  };
  {
    MutexLock lock(cache.mutex);
    const auto found = std::find_if(cache.orders.begin(), cache.orders.end(), is_same);
    if (found != cache.orders.end()) return found->order;
  }
  absl::StatusOr<std::shared_ptr<const MixOrder>> made = MixOrder::Make(spec, parts);
  if (!made.ok()) return made;
  MutexLock lock(cache.mutex);
  cache.orders.push_front({spec, std::move(parts), *made});
  if (cache.orders.size() > kMost) cache.orders.pop_back();
  return made;
}

absl::Status CheckOptions(const ReaderOptions& options) {
  if (options.world == 0 || options.rank >= options.world) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} of {}: ranks must be from 0 to the number of ranks minus 1",
                    options.rank, options.world));
  }
  // Products of batch and world must not overflow.
  if (options.batch == 0 || options.batch > UINT32_MAX) {
    return absl::InvalidArgumentError(
        fmt::format("batch must be from 1 to {}, got {}", UINT32_MAX, options.batch));
  }
  if (options.world > UINT32_MAX) {
    return absl::InvalidArgumentError(
        fmt::format("world must be from 1 to {}, got {}", UINT32_MAX, options.world));
  }
  if (!(options.max_skipped.share >= 0 && options.max_skipped.share <= 1)) {
    return absl::InvalidArgumentError(fmt::format(
        "max_skipped: the share must lie between 0 and 1, got {}", options.max_skipped.share));
  }
  if (options.order.mixture != nullptr && options.records) {
    return absl::InvalidArgumentError(
        "mix: records are selected in each source of a mixture, not in the whole mixture");
  }
  return absl::OkStatus();
}

// Returns the first item of each shard, and at the end the number of items.
absl::StatusOr<std::vector<uint64_t>> ItemBegins(const ShardTable& table,
                                                 const ReaderOptions& options,
                                                 const Selection& selection) {
  std::vector<uint64_t> begins = table.begins();
  if (!options.records) return begins;
  if (options.order.kind == OrderSpec::Kind::kInterleave && !selection.sorted()) {
    return absl::InvalidArgumentError(
        "interleave reads shards from front to back; records in another order cannot be "
        "interleaved");
  }
  for (uint64_t& begin : begins) {
    begin = selection.sorted()             ? selection.CountBelow(begin)
            : begin == table.num_records() ? selection.size()
                                           : 0;
  }
  return begins;
}

// Returns the number of records that are read at once in an order that the size of reads does not
// affect, so that the budget determines it: a multiple of `together`.
uint64_t ChunkByBudget(const ShardTable& table, const ReaderOptions& options, uint64_t together) {
  const uint64_t streams = options.order.kind == OrderSpec::Kind::kInterleave
                               ? std::min<uint64_t>(options.order.cycle, table.num_shards())
                               : 1;
  // Streams side by side share the processor's caches: what is read at once, and where it is read
  // from, fits a core's.
  const uint64_t most = IsFetched(table) ? RangeContent(table)
                        : streams > 4    ? kReadBlockBytes / 4
                                         : kReadBlockBytes;
  const uint64_t bytes =
      std::clamp<uint64_t>(options.budget_bytes / (4 * (streams + 4)), 16 << 10, most);
  return RoundUp(std::max<uint64_t>(1, bytes / std::max<uint64_t>(1, table.mean_bytes())),
                 together);
}

}  // namespace

Reader::Reader(std::shared_ptr<const ShardTable> table, ReaderOptions options, Selection selection)
    : table_(std::move(table)), options_(std::move(options)), selection_(std::move(selection)) {}

Reader::~Reader() {
  // In a child, the threads that the destructor would wait for do not exist.
  if (run_ != nullptr && run_process_ != ::getpid()) (void)run_.release();
}

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(std::shared_ptr<const ShardTable> table,
                                                     ReaderOptions options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  const uint64_t records = table->num_records();
  const Mixture* const mixture = options.order.mixture.get();
  std::vector<MixPart> parts;
  absl::StatusOr<Selection> selection = mixture != nullptr ? SelectSources(*table, *mixture, &parts)
                                        : options.records
                                            ? Selection::Ranges(*options.records, records)
                                            : Selection::All(records);
  if (!selection.ok()) return selection.status();
  if (options.budget_bytes == 0) {
    options.budget_bytes = std::clamp<uint64_t>(
        FreeMemoryBytes() / 8, table->remote() ? kMinRemoteBudget : kMinBudget, kMaxDefaultBudget);
  }
  absl::StatusOr<std::vector<uint64_t>> begins = ItemBegins(*table, options, *selection);
  if (!begins.ok()) return begins.status();
  const uint64_t together = RecordsDecodedTogether(*table);
  if (options.order.kind != OrderSpec::Kind::kShuffle && options.order.chunk == 0 &&
      mixture == nullptr) {
    options.order.chunk = ChunkByBudget(*table, options, together);
  }
  std::unique_ptr<Reader> reader(
      new Reader(std::move(table), std::move(options), *std::move(selection)));
  if (mixture != nullptr) {
    absl::StatusOr<std::shared_ptr<const MixOrder>> mix =
        MixOrderOf(reader->options_.order, std::move(parts));
    if (!mix.ok()) return mix.status();
    reader->order_ = reader->mix_ = *std::move(mix);
  } else {
    absl::StatusOr<std::shared_ptr<const Order>> order = Order::Make(
        reader->options_.order, *std::move(begins), reader->table_->mean_bytes(), together);
    if (!order.ok()) return order.status();
    reader->order_ = *std::move(order);
  }
  const uint64_t round = reader->options_.batch * reader->options_.world;
  const uint64_t size = reader->order_->size();
  reader->batches_ =
      reader->options_.end == EpochEnd::kDrop ? size / round : CeilDivide(size, round);
  reader->place_.batch = reader->options_.batch;
  reader->place_.world = reader->options_.world;
  if (reader->options_.pack) {
    if (reader->options_.end != EpochEnd::kDrop || reader->options_.leftover) {
      return absl::InvalidArgumentError(
          "pack: rows that are planned end with the last whole round of batches; pad and wrap, and "
          "merged states, are for records");
    }
    reader->options_.deterministic = true;
    absl::StatusOr<std::shared_ptr<const PackPlan>> pack =
        PackPlan::Make(reader->table_, reader->selection_, reader->order_, *reader->options_.pack);
    if (!pack.ok()) return pack.status();
    reader->pack_ = *std::move(pack);
    return reader;
  }
  reader->place_.position = reader->options_.rank;
  if (auto& leftover = reader->options_.leftover) {
    leftover = std::make_shared<const Leftover>(leftover->Within(size));
    reader->Seek(leftover->epoch, 0);
  }
  return reader;
}

uint64_t Reader::records_per_epoch() const { return batches_ * options_.batch; }

uint64_t Reader::RecordAt(uint64_t epoch, uint64_t position) const {
  return selection_.RecordAt(order_->ItemAt(epoch, position % order_->size()));
}

absl::StatusOr<std::vector<uint64_t>> Reader::RecordsOf(const ReadBlock& block) const {
  std::vector<uint64_t> numbers(block.records.size());
  if (pack_ == nullptr) {
    const uint64_t size = order_->size();
    const uint64_t left = block.position < size ? size - block.position : 0;
    const size_t real = std::min<uint64_t>(numbers.size(), CeilDivide(left, block.stride));
    order_->Fill(block.epoch, block.position, block.stride, absl::MakeSpan(numbers).first(real));
    for (size_t i = real; i < numbers.size(); ++i) {
      numbers[i] = order_->ItemAt(block.epoch, (block.position + i * block.stride) % size);
    }
  } else {
    auto next = numbers.begin();
    for (const PackedRow& row : block.rows) {
      const absl::StatusOr<std::shared_ptr<const PackedWindow>> window =
          pack_->Window(block.epoch, row.position);
      if (!window.ok()) return window.status();
      const PackedPart* const parts = (*window)->parts.data() + PackPlan::PartOf(row.position);
      for (uint64_t i = 0; i < row.records; ++i) *next++ = parts[i].item;
    }
  }
  for (uint64_t& number : numbers) number = selection_.RecordAt(number);
  return numbers;
}

std::string Reader::NameAt(uint64_t epoch, uint64_t position) const {
  if (pack_ == nullptr) return table_->NameOf(RecordAt(epoch, position));
  const absl::StatusOr<PackedPart> part = pack_->PartAt(epoch, position);
  if (!part.ok()) return std::string(part.status().message());
  return table_->NameOf(selection_.RecordAt(part->item));
}

absl::Status Reader::Next(ReadBlock* block) {
  if (!error_.ok()) return error_;
  const int process = ::getpid();
  if (run_ != nullptr && run_process_ != process) {
    if (!options_.deterministic) {
      return absl::FailedPreconditionError(
          "forked while records were delivered out of order (deterministic = false), so there "
          "is no position to continue from");
    }
    // Forked: the parent's run is abandoned, because threads that do not exist here may hold its
    // locks.
    (void)run_.release();
  }
  if (run_ == nullptr) {
    run_ = SharedRun::Join(OrderText({.position = MixOrder::kWholeMix}), table_, options_,
                           selection_, order_, place_, place_.position);
    if (absl::Status status = StartRun(); !status.ok()) return status;
    run_process_ = process;
  }
  absl::Status status = run_->Next(block);
  if (absl::IsAborted(status)) {
    run_ = nullptr;
    if (status = StartRun(); !status.ok()) return status;
    status = run_->Next(block);
  }
  if (!status.ok()) error_ = status;
  if (!status.ok() || block->records.empty()) return status;
  if (pack_ != nullptr) {
    place_.epoch = block->epoch;
    place_.position = block->next_position;
    place_.from = block->next_phase;
    return status;
  }
  if (place_.epoch != block->epoch) place_.from = 0;
  place_.epoch = block->epoch;
  place_.position = block->place + block->records.size() * options_.world;
  if (place_.position >= place_.End(order_->size(), options_.end)) {
    ++place_.epoch;
    place_.from = 0;
    place_.position = options_.rank;
  }
  return status;
}

absl::Status Reader::StartRun() {
  if (run_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<ReadRun>> run =
      ReadRun::Start(table_, options_, selection_, order_, pack_, place_, place_.position);
  if (!run.ok()) return run.status();
  run_ = *std::move(run);
  return absl::OkStatus();
}

void Reader::Seek(uint64_t epoch, uint64_t position) {
  GoTo({epoch, position, 0, options_.batch, options_.world});
}

void Reader::GoTo(const ReadPlace& place) {
  if (run_ != nullptr && run_process_ != ::getpid()) (void)run_.release();
  run_ = nullptr;
  error_ = absl::OkStatus();
  place_ = place;
  if (pack_ != nullptr) {
    if (place.batch != options_.batch || place.world != options_.world) {
      place_ = {place.epoch, place.position, 0, options_.batch, options_.world};
    }
    return;
  }
  // A position far past the end is the end; rounding must not overflow.
  place_.position = std::min(place.position, UINT64_MAX / 4);
  // The records that ranks have left out at the end of the epoch remain left out.
  if (place.position > place.from && place.position >= place.End(order_->size(), options_.end)) {
    place_ = {place.epoch + 1, 0, 0, place.batch, place.world};
  }
  place_ = place_.SharedBy(options_.batch, options_.world);
  if (place_.position == 0) place_.from = 0;
  if (options_.leftover && options_.leftover->epoch == place_.epoch) {
    const uint64_t begin = options_.leftover->begin();
    if (place_.position <= begin) place_.position = place_.from = begin;
  }
  const uint64_t first = place_.from + options_.rank;
  place_.position =
      first + RoundUp(place_.position > first ? place_.position - first : 0, options_.world);
}

ReadPlace Reader::place() const {
  ReadPlace place = place_;
  if (pack_ == nullptr) place.position -= options_.rank;
  return place;
}

absl::StatusOr<std::optional<ReadPlace>> Reader::PlaceAfter(const ReadPlace& place,
                                                            uint64_t records) const {
  ReadPlace at = place;
  if (records == 0) return at;
  const auto begin = [&] {
    return RankRows::From(pack_, at.epoch, at.position, at.from, options_.rank, options_.world,
                          options_.batch);
  };
  absl::StatusOr<RankRows> rows = begin();
  if (!rows.ok()) return rows.status();
  for (bool any = false; records > 0; any = true) {
    absl::StatusOr<std::optional<RankRows::Row>> row = rows->Next();
    if (!row.ok()) return row.status();
    if (!*row && !any) {
      // The records are the next epoch's.
      at = {at.epoch + 1, 0, 0, options_.batch, options_.world};
      rows = begin();
      if (!rows.ok()) return rows.status();
      row = rows->Next();
      if (!row.ok()) return row.status();
    }
    if (!*row || (*row)->parts().size() > records) return std::nullopt;
    records -= (*row)->parts().size();
    at.position = rows->place();
    at.from = rows->phase();
  }
  return at;
}

uint64_t Reader::DataBefore(const ReadPlace& place) const {
  return mix_ != nullptr ? past().Data(place.epoch, place.position) : table_->fingerprint();
}

std::string Reader::OrderText(const ReadPlace& place) const {
  std::string text =
      mix_ != nullptr ? past().Describe(place.epoch, place.position) : order_->Describe();
  if (pack_ != nullptr) {
    const PackSpec& pack = pack_->spec();
    text += fmt::format(" packed(lengths={}, length={}, how={}, longer={}, window={}", pack.lengths,
                        pack.length, static_cast<int>(pack.how), static_cast<int>(pack.longer),
                        pack.window);
    if (pack.min_length > 0) text += fmt::format(", min_length={}", pack.min_length);
    if (pack.max_length < UINT64_MAX) text += fmt::format(", max_length={}", pack.max_length);
    if (pack.how == PackSpec::How::kSteps) {
      text += fmt::format(", before={}, after={}", pack.steps_before, pack.steps_after);
    }
    if (pack.separated) text += ", separated";
    if (pack.cost == PackSpec::Cost::kQuadratic) text += ", cost=quadratic";
    text += ")";
  }
  if (options_.records) {
    uint64_t key = 0;
    selection_.ForEachRange(0, selection_.size(), [&](uint64_t first, uint64_t count) {
      key = DeriveKey(DeriveKey(key, first), count);
    });
    text += fmt::format(" of {} records ({:016x})", selection_.size(), key);
  }
  return text;
}

uint64_t Reader::PastOf(const ReadPlace& place) const {
  return DeriveKey(DataBefore(place), OrderText(place));
}

absl::StatusOr<std::string> Reader::StateDict() const {
  if (!options_.deterministic) {
    return absl::FailedPreconditionError(
        "records are delivered out of order (deterministic = false), so there is no position "
        "to return to");
  }
  const ReadPlace at = place();
  const nlohmann::ordered_json state = {{"format", "shardfeed reader state"},
                                        {"version", kStateVersion},
                                        {"dataset", fmt::format("{:016x}", DataBefore(at))},
                                        {"order", OrderText(at)},
                                        {"epoch", at.epoch},
                                        {"position", at.position},
                                        {"from", at.from},
                                        {"batch", at.batch},
                                        {"world", at.world}};
  return state.dump();
}

absl::Status Reader::LoadStateDict(std::string_view text) {
  nlohmann::json state;
  const absl::Status parsed = ParseBoundedJson(text, &state);
  const auto is_number = [&](const char* key) {
    return state.contains(key) && state[key].is_number_unsigned();
  };
  const auto is_text = [&](const char* key) {
    return state.contains(key) && state[key].is_string();
  };
  if (!parsed.ok() || !state.is_object() || !is_text("format") ||
      state["format"] != "shardfeed reader state" || !is_number("version") || !is_text("dataset") ||
      !is_text("order") || !is_number("epoch") || !is_number("position") || !is_number("from") ||
      !is_number("batch") || !is_number("world")) {
    return absl::InvalidArgumentError("not a state of a shardfeed reader");
  }
  if (state["version"].get<uint64_t>() != kStateVersion) {
    return absl::InvalidArgumentError(
        fmt::format("the state has version {}, but this shardfeed reads version {}",
                    state["version"].get<uint64_t>(), kStateVersion));
  }
  const ReadPlace place = {state["epoch"].get<uint64_t>(), state["position"].get<uint64_t>(),
                           state["from"].get<uint64_t>(), state["batch"].get<uint64_t>(),
                           state["world"].get<uint64_t>()};
  if (absl::Status status = place.Check(); !status.ok()) return status;
  const std::string dataset = fmt::format("{:016x}", DataBefore(place));
  if (state["dataset"] != dataset) {
    return absl::FailedPreconditionError(
        fmt::format("the state belongs to other data: its dataset is {}, but this one is {}; "
                    "records were added, "
                    "removed or changed since it was saved, or it was saved for another dataset",
                    state["dataset"].get<std::string>(), dataset));
  }
  if (const std::string order = OrderText(place); state["order"] != order) {
    return absl::FailedPreconditionError(fmt::format(
        "the state belongs to another order: it was saved for {}, but this reader has {}{}",
        state["order"].get<std::string>(), order,
        mix_ == nullptr ? "" : "; weights may change only after what was delivered"));
  }
  GoTo(place);
  return absl::OkStatus();
}

MemoryPlan Reader::memory_plan() const { return PlanMemory(*table_, *order_, options_); }

ReaderStats Reader::stats() const {
  return run_ != nullptr && run_process_ == ::getpid() ? run_->stats() : ReaderStats();
}

}  // namespace shardfeed
