#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/flags/order_flags.h"
#include "cli/reports/mix_sources.h"
#include "cli/reports/packed_rows.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "reader/epoch_cost.h"
#include "reader/plan/read_plan.h"
#include "reader/reader.h"

namespace shardfeed {
namespace {

// How well an order mixes, estimated from a sample of the first epoch.
struct Mixing {
  // Mean distance between a record's positions in the dataset and in the epoch, divided by that of
  // the exact permutation (a third of the size): 0 for no mixing, 1 for exact mixing.
  double displacement = 0;
  // Share of a batch's records that were read together with another record of the batch.
  double batch_neighbors = 0;
};

Mixing Measure(const Order& order, uint64_t global_batch) {
  constexpr uint64_t kSamples = 20'000;
  Mixing mixing;
  const uint64_t size = order.size();
  if (size < 2) return mixing;
  const uint64_t samples = std::min(size, kSamples);
  double sum = 0;
  for (uint64_t i = 0; i < samples; ++i) {
    const auto position = static_cast<uint64_t>(static_cast<unsigned __int128>(i) * size / samples);
    sum += std::abs(static_cast<double>(order.ItemAt(0, position)) - static_cast<double>(position));
  }
  mixing.displacement = sum / static_cast<double>(samples) / (static_cast<double>(size) / 3);
  const uint64_t batch = std::min(std::max<uint64_t>(global_batch, 2), size);
  const uint64_t batches = std::clamp<uint64_t>(kSamples / batch, 1, size / batch);
  std::vector<uint64_t> items(batch);
  uint64_t neighbors = 0;
  for (uint64_t b = 0; b < batches; ++b) {
    order.Fill(0, b * (size / batch / batches) * batch, 1, absl::MakeSpan(items));
    std::multiset<uint64_t> pieces;
    for (uint64_t item : items) pieces.insert(order.PieceOf(0, item).begin);
    for (uint64_t piece : pieces) neighbors += pieces.count(piece) > 1 ? 1 : 0;
  }
  mixing.batch_neighbors = static_cast<double>(neighbors) / static_cast<double>(batches * batch);
  return mixing;
}

// The list price of a thousand GET requests to Amazon S3 (standard), in dollars.
constexpr double kRequestPrice = 0.0004;

struct PlanFlags {
  OrderFlags order;
  PackFlags pack;
  uint64_t rate = 10'000;
  double price = kRequestPrice;
};

double PriceOf(const EpochCost& cost, double price) {
  return static_cast<double>(cost.requests) / 1000 * price;
}

// "12,000 ranges, 96 GiB, $0.0048"
std::string CostText(const EpochCost& cost, double price) {
  return fmt::format("{}{} ranges, {}, ${:.2g}", cost.estimated ? "about " : "",
                     FormatCount(cost.requests), FormatSize(cost.bytes), PriceOf(cost, price));
}

// The reader's shuffle with chunks of 8 MiB, if its own are smaller and the window has room for
// them; null otherwise.
absl::StatusOr<std::unique_ptr<Reader>> WithLargeChunks(const Reader& reader) {
  ReaderOptions options = reader.options();
  const OrderSpec& spec = reader.order().spec();
  const uint64_t mean = std::max<uint64_t>(1, reader.table().mean_bytes());
  const uint64_t chunk = std::max<uint64_t>(1, kRemoteReadBytes / mean);
  const uint64_t lanes = std::min(spec.lanes, spec.window / chunk) / options.world * options.world;
  if (spec.mixture != nullptr || spec.kind != OrderSpec::Kind::kShuffle ||
      spec.window == OrderSpec::kAll || 2 * spec.chunk > chunk || lanes == 0) {
    return nullptr;
  }
  options.order = spec;
  options.order.chunk = chunk;
  options.order.lanes = lanes;
  return Reader::Open(reader.shared_table(), std::move(options));
}

// What an epoch asks of the store, and what it would with larger chunks.
struct StorePlan {
  EpochCost cost;
  std::optional<EpochCost> large;
  uint64_t lanes = 0;  // lanes for the larger chunks
};

absl::StatusOr<StorePlan> PlanStore(const Reader& reader) {
  StorePlan plan;
  absl::StatusOr<EpochCost> cost = PlanEpoch(reader);
  if (!cost.ok()) return cost.status();
  plan.cost = *cost;
  absl::StatusOr<std::unique_ptr<Reader>> large = WithLargeChunks(reader);
  if (!large.ok()) return large.status();
  if (*large == nullptr) return plan;
  cost = PlanEpoch(**large);
  if (!cost.ok()) return cost.status();
  // Ranges end where shards do: in small ones, larger chunks are no fewer.
  if (2 * cost->requests > plan.cost.requests) return plan;
  plan.large = *cost;
  plan.lanes = (*large)->order().spec().lanes;
  return plan;
}

// What cannot be kept of MDS shards (MdsColumns::Notes), and what it costs to shuffle ArrayRecord
// shards: by the first one of each folder. None if its index cannot be opened; reading reports the
// error.
std::vector<std::string> NotesOf(const ShardTable& table) {
  std::vector<std::string> notes;
  std::optional<std::string_view> folder;
  for (size_t shard = 0; shard < table.num_shards(); ++shard) {
    const std::string_view path = table.path(shard);
    const std::string_view its_folder = path.substr(0, path.rfind('/') + 1);
    const Framing framing = table.summary(shard).framing;
    if (framing != Framing::kMds && framing != Framing::kArrayRecord) continue;
    if (folder == its_folder) continue;
    folder = its_folder;
    const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = table.Index(shard);
    if (!index.ok()) continue;
    for (std::string& note : FormatNotes(**index)) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
        notes.push_back(std::move(note));
      }
    }
  }
  return notes;
}

// Opens the dataset in the order that the flags tell.
absl::StatusOr<std::unique_ptr<Reader>> OpenReader(const OrderFlags& flags,
                                                   const PackFlags& pack_flags,
                                                   const CommandOptions& options) {
  absl::StatusOr<std::optional<PackSpec>> pack = PackSpecOf(pack_flags);
  if (!pack.ok()) return pack.status();
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = OpenTable(flags, options);
  if (!table.ok()) return table.status();
  absl::StatusOr<ReaderOptions> reading = MakeReaderOptions(flags, table->get());
  if (!reading.ok()) return reading.status();
  reading->pack = *std::move(pack);
  return Reader::Open(*table, *std::move(reading));
}

// What an epoch of one rank consists of, and what reading it takes.
struct EpochPlan {
  bool shuffled = false;
  bool exact = false;  // a shuffle of all records
  uint64_t window = 1;
  uint64_t batches = 0;    // batches of each rank
  uint64_t left_over = 0;  // records that no rank gets
  uint64_t padding = 0;    // records that appear twice
  std::optional<PackedEpoch> packed;
  Mixing mixing;
  MemoryPlan memory;
  double records_per_read = 1;
  std::optional<StorePlan> store;
  std::vector<std::string> notes;

  double ReadsPerSecond(uint64_t rate) const {
    return static_cast<double>(rate) / records_per_read;
  }
};

absl::StatusOr<EpochPlan> MakePlan(const Reader& reader, const PlanFlags& flags) {
  const ShardTable& table = reader.table();
  const std::optional<PackSpec>& pack = reader.options().pack;
  const Order& order = reader.order();
  const OrderSpec& spec = order.spec();
  EpochPlan plan;
  plan.shuffled = spec.kind == OrderSpec::Kind::kShuffle;
  plan.exact = plan.shuffled && spec.window == OrderSpec::kAll;
  plan.window = plan.exact ? order.size() : plan.shuffled ? spec.window : 1;
  const uint64_t delivered = reader.records_per_epoch() * flags.order.world;
  plan.left_over = !pack && order.size() > delivered ? order.size() - delivered : 0;
  plan.padding = delivered > order.size() ? delivered - order.size() : 0;
  plan.memory = reader.memory_plan();
  if (plan.memory.whole_chunks && !plan.exact) {
    plan.records_per_read = static_cast<double>(std::max<uint64_t>(1, spec.chunk));
  }
  plan.notes = NotesOf(table);
  plan.mixing = Measure(order, flags.order.batch * flags.order.world);
  if (pack) {
    absl::StatusOr<PackedEpoch> epoch = DescribePackedEpoch(reader);
    if (!epoch.ok()) return epoch.status();
    plan.packed = *epoch;
  }
  plan.batches = plan.packed ? plan.packed->batches_per_rank : reader.batches_per_epoch();
  // A window that does not fit the budget is not read from a store.
  if (table.remote() && (plan.memory.whole_chunks || plan.exact)) {
    absl::StatusOr<StorePlan> store = PlanStore(reader);
    if (!store.ok()) return store.status();
    plan.store = *std::move(store);
  }
  return plan;
}

void PrintJson(const EpochPlan& plan, const Reader& reader, const PlanFlags& flags) {
  const ShardTable& table = reader.table();
  const std::optional<PackSpec>& pack = reader.options().pack;
  const Order& order = reader.order();
  const uint64_t mean = table.mean_bytes();
  nlohmann::ordered_json json = {
      {"shards", table.num_shards()},
      {"records", order.size()},
      {"bytes", table.stream_bytes()},
      {"mean_record_bytes", mean},
      {"order", order.Describe()},
      {"batches_per_rank", plan.batches},
      {"records_per_rank", reader.records_per_epoch()},
      {"left_over", plan.left_over},
      {"padding", plan.padding},
      {"window_records", plan.window},
      {"window_bytes", plan.window * mean},
      {"displacement", plan.mixing.displacement},
      {"batch_neighbors", plan.mixing.batch_neighbors},
      {"reads_per_second", plan.ReadsPerSecond(flags.rate)},
      {"bytes_per_read", plan.records_per_read * static_cast<double>(mean)},
      {"whole_chunks", plan.memory.whole_chunks},
      {"held_bytes", plan.memory.held_bytes},
      {"budget_bytes", plan.memory.budget_bytes}};
  // How far records move means nothing between several datasets.
  if (reader.shared_mix() != nullptr) json.erase("displacement");
  if (plan.packed) {
    json.erase("records_per_rank");
    json["packing"] = {{"rows", plan.packed->rows},
                       {"row_elements", pack->length},
                       {"elements", plan.packed->elements},
                       {"left_out_records", plan.packed->left_out},
                       {"full", plan.packed->Full(pack->length)},
                       {"left_over_rows", plan.packed->left_over},
                       {"balance", plan.packed->balance}};
  }
  if (plan.store) {
    json["store"] = {{"requests", plan.store->cost.requests},
                     {"bytes", plan.store->cost.bytes},
                     {"estimated", plan.store->cost.estimated},
                     {"price_of_1000", flags.price},
                     {"price", PriceOf(plan.store->cost, flags.price)}};
    if (plan.store->large) {
      json["store"]["requests_with_chunks_of_8MiB"] = plan.store->large->requests;
      json["store"]["lanes_with_chunks_of_8MiB"] = plan.store->lanes;
    }
  }
  if (!plan.notes.empty()) json["notes"] = plan.notes;
  fmt::print("{}\n", json.dump(1));
}

void PrintText(const EpochPlan& plan, const Reader& reader, const PlanFlags& flags) {
  const ShardTable& table = reader.table();
  const std::optional<PackSpec>& pack = reader.options().pack;
  const Order& order = reader.order();
  const uint64_t mean = table.mean_bytes();
  fmt::print("data:    {} records in {} shards, {}, {} per record\n",
             FormatCount(reader.selection().size()), FormatCount(table.num_shards()),
             FormatSize(table.stream_bytes()), FormatSize(mean));
  fmt::print("order:   {}\n", order.Describe());
  if (reader.shared_mix() != nullptr) PrintSources(*reader.shared_mix());
  fmt::print("epoch:   {} batches of {}{} on each of {} ranks", FormatCount(plan.batches),
             flags.order.batch, plan.packed ? " rows" : "", flags.order.world);
  if (plan.packed && plan.packed->left_over > 0) {
    fmt::print("; {} rows are left over", FormatCount(plan.packed->left_over));
  }
  if (plan.left_over > 0) fmt::print("; {} records are left over", FormatCount(plan.left_over));
  if (plan.padding > 0) fmt::print("; {} records appear twice", FormatCount(plan.padding));
  fmt::print("\n");
  if (plan.packed && pack->how == PackSpec::How::kSteps) {
    fmt::print("rows:    {} steps, from the lengths '{}'\n", FormatCount(plan.packed->rows),
               pack->lengths);
  } else if (plan.packed) {
    fmt::print(
        "rows:    {} of {} '{}', {:.1f} % full; in a step, the rank with most{} has on average "
        "{:.3f} times the mean\n",
        FormatCount(plan.packed->rows), FormatCount(pack->length), pack->lengths,
        100 * plan.packed->Full(pack->length),
        pack->cost == PackSpec::Cost::kQuadratic ? " attention" : "", plan.packed->balance);
    if (plan.packed->left_out > 0) {
      fmt::print("         {} records are left out because of their lengths\n",
                 FormatCount(plan.packed->left_out));
    }
  }
  if (plan.shuffled) {
    fmt::print("window:  {} records, {}\n", FormatCount(plan.window),
               FormatSize(plan.window * mean));
  }
  if (plan.shuffled && reader.shared_mix() == nullptr) {
    fmt::print(
        "mixing:  records move {:.0f} % as far as in the exact permutation; {:.1f} % of a "
        "global batch's records were read together with another of them\n",
        plan.mixing.displacement * 100, plan.mixing.batch_neighbors * 100);
  }
  fmt::print("reads:   {} of {} per second for {} records/s on this rank\n",
             FormatCount(static_cast<uint64_t>(std::ceil(plan.ReadsPerSecond(flags.rate)))),
             FormatSize(static_cast<uint64_t>(plan.records_per_read * static_cast<double>(mean))),
             FormatCount(flags.rate));
  fmt::print("memory:  {} for the window and reading ahead, of a budget of {}\n",
             FormatSize(plan.memory.held_bytes), FormatSize(plan.memory.budget_bytes));
  if (plan.store) {
    fmt::print("store:   {} for an epoch of this rank, by ${} for 1,000 requests (--price)\n",
               CostText(plan.store->cost, flags.price), flags.price);
    if (plan.store->large) {
      fmt::print(
          "note: --chunk 8MiB --lanes {} takes {}; it is another order, which mixes chunks of that "
          "size\n",
          plan.store->lanes, CostText(*plan.store->large, flags.price));
    }
  }
  if (!plan.memory.whole_chunks && !plan.exact) {
    fmt::print(
        "note: the window does not fit the budget, so records {}; a larger --budget or a "
        "smaller --window is {}\n",
        table.remote() ? "would be read one by one, which is refused in a store"
                       : "will be read one by one",
        table.remote() ? "needed" : "faster");
  }
  for (const std::string& note : plan.notes) fmt::print("note: {}\n", note);
}

int Plan(const PlanFlags& flags, const CommandOptions& options) {
  absl::StatusOr<std::unique_ptr<Reader>> reader = OpenReader(flags.order, flags.pack, options);
  if (!reader.ok()) return ReportError(reader.status());
  const absl::StatusOr<EpochPlan> plan = MakePlan(**reader, flags);
  if (!plan.ok()) return ReportError(plan.status());
  if (options.json) {
    PrintJson(*plan, **reader, flags);
  } else {
    PrintText(*plan, **reader, flags);
  }
  return kExitDone;
}

struct ReplayFlags {
  OrderFlags order;
  PackFlags pack;
  uint64_t epoch = 0;
  std::optional<uint64_t> step;
  std::optional<uint64_t> find;
};

nlohmann::ordered_json Describe(const ShardTable& table, uint64_t record) {
  const size_t shard = table.ShardOf(record);
  return {{"record", record},
          {"shard", table.path(shard)},
          {"shard_record", record - table.begins()[shard]}};
}

// Prints the parts of records that rows consist of. `find`: with the batches that have the rows.
int PrintParts(const Reader& reader, absl::Span<const PlacedPart> parts, bool find, bool as_json) {
  const uint64_t world = reader.options().world;
  const uint64_t batch = reader.options().batch;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlacedPart& placed : parts) {
    nlohmann::ordered_json json =
        Describe(reader.table(), reader.selection().RecordAt(placed.part.item));
    json.update(
        {{"row", placed.row}, {"begin", placed.part.begin}, {"elements", placed.part.count}});
    const uint64_t of_rank = placed.row / world;
    if (find) {
      json.update({{"delivered", placed.delivered},
                   {"rank", placed.row % world},
                   {"step", of_rank / batch},
                   {"index", of_rank % batch}});
    }
    if (as_json) {
      list.push_back(std::move(json));
    } else if (find && !placed.delivered) {
      fmt::print("elements {} to {} are in row {}, which is dropped at the end of the epoch\n",
                 placed.part.begin, placed.part.begin + placed.part.count - 1, placed.row);
    } else if (find) {
      fmt::print("elements {} to {} are in row {}: rank {}, step {}, index {} in the batch\n",
                 placed.part.begin, placed.part.begin + placed.part.count - 1, placed.row,
                 placed.row % world, of_rank / batch, of_rank % batch);
    } else {
      fmt::print("{}\t{}\t{}\t{}\t{}\t{}\n", placed.row, json["record"].get<uint64_t>(),
                 json["shard"].get<std::string>(), json["shard_record"].get<uint64_t>(),
                 placed.part.begin, placed.part.count);
    }
  }
  if (as_json) fmt::print("{}\n", list.dump(1));
  return kExitDone;
}

// `items`: those to find.
int ReplayRows(const Reader& reader, const ReplayFlags& flags, const std::vector<uint64_t>& items,
               const CommandOptions& options) {
  std::vector<PlacedPart> parts;
  const auto add = [&](const absl::StatusOr<std::vector<PlacedPart>>& some) {
    if (some.ok()) parts.insert(parts.end(), some->begin(), some->end());
    return some.status();
  };
  absl::Status status = absl::OkStatus();
  if (!flags.find) status = add(PartsOfBatch(reader, flags.epoch, flags.step.value_or(0)));
  for (uint64_t item : items) {
    if (status.ok()) status = add(PartsOfItem(reader, flags.epoch, item));
  }
  if (!status.ok()) return ReportError(status);
  if (parts.empty() && !options.json) {
    const uint64_t length = items.empty() ? 0 : reader.shared_pack()->LengthOf(items[0]);
    if (reader.shared_pack()->IsKept(length)) {
      fmt::print("record {} has no elements, so no row has it\n", *flags.find);
    } else {
      fmt::print(
          "record {} has {} elements, and is left out because of its length, so no row has it\n",
          *flags.find, length);
    }
  }
  return PrintParts(reader, parts, flags.find.has_value(), options.json);
}

// Prints that the record to find is delivered at a position, and returns the same as JSON.
// `repeated`: to fill up the last round of the epoch.
nlohmann::ordered_json PrintPlace(const Reader& reader, const ReplayFlags& flags, uint64_t position,
                                  bool repeated, bool as_json) {
  const uint64_t world = flags.order.world;
  const uint64_t batch = flags.order.batch;
  const uint64_t rank = position % world;
  const uint64_t step = position / world / batch;
  const uint64_t index = position / world % batch;
  const bool delivered = step < reader.batches_per_epoch();
  nlohmann::ordered_json json = Describe(reader.table(), *flags.find);
  json.update({{"epoch", flags.epoch},
               {"position", position},
               {"delivered", delivered},
               {"rank", rank},
               {"step", step},
               {"index", index}});
  if (repeated) json["repeated"] = true;
  if (!as_json && delivered) {
    fmt::print(
        "record {} of epoch {} is {}at position {}: rank {}, step {}, index {} in the batch{}\n",
        *flags.find, flags.epoch, repeated ? "also " : "", position, rank, step, index,
        repeated ? ", to fill up the epoch" : "");
  } else if (!as_json) {
    fmt::print(
        "record {} is at position {} of epoch {}, which is dropped at the end of the epoch\n",
        *flags.find, position, flags.epoch);
  }
  return json;
}

int Replay(const ReplayFlags& flags, const CommandOptions& options) {
  absl::StatusOr<std::unique_ptr<Reader>> opened = OpenReader(flags.order, flags.pack, options);
  if (!opened.ok()) return ReportError(opened.status());
  const Reader& reader = **opened;
  const ShardTable& table = reader.table();
  const uint64_t world = flags.order.world;
  const uint64_t batch = flags.order.batch;
  if (flags.find) {
    const uint64_t item = reader.selection().ItemOf(*flags.find);
    if (item >= reader.selection().size()) {
      return ReportError(absl::InvalidArgumentError(
          fmt::format("--find {}: this record is not among the {} records that are read",
                      *flags.find, reader.selection().size())));
    }
    const MixOrder* const mix = reader.shared_mix().get();
    const std::vector<uint64_t> items =
        mix != nullptr ? mix->ItemsOf(flags.epoch, item) : std::vector<uint64_t>{item};
    if (items.empty() && !options.json) {
      fmt::print("record {} is not in epoch {}\n", *flags.find, flags.epoch);
      return kExitDone;
    }
    if (reader.options().pack) return ReplayRows(reader, flags, items, options);
    nlohmann::ordered_json places = nlohmann::ordered_json::array();
    const uint64_t end = reader.batches_per_epoch() * batch * world;
    for (uint64_t one : items) {
      const uint64_t first = reader.order().PositionOf(flags.epoch, one);
      places.push_back(PrintPlace(reader, flags, first, /*repeated=*/false, options.json));
      for (uint64_t at = first + reader.order().size(); at < end; at += reader.order().size()) {
        places.push_back(PrintPlace(reader, flags, at, /*repeated=*/true, options.json));
      }
    }
    const bool several = mix != nullptr || places.size() > 1;
    if (options.json) fmt::print("{}\n", (several ? places : places[0]).dump(1));
    return kExitDone;
  }
  if (reader.options().pack) return ReplayRows(reader, flags, {}, options);
  const uint64_t step = flags.step.value_or(0);
  if (step >= reader.batches_per_epoch()) {
    return ReportError(absl::InvalidArgumentError(fmt::format(
        "--step {}: an epoch has {} batches, numbered from 0", step, reader.batches_per_epoch())));
  }
  // Records are printed one by one, since a batch may have any number of them.
  for (uint64_t i = 0; i < batch; ++i) {
    if (InterruptToken().stop_requested()) return ReportError(absl::CancelledError("interrupted"));
    const uint64_t position = (step * batch + i) * world + flags.order.rank;
    const nlohmann::ordered_json record = Describe(table, reader.RecordAt(flags.epoch, position));
    if (options.json) {
      fmt::print("{}\n {}", i == 0 ? "[" : ",",
                 absl::StrReplaceAll(record.dump(1), {{"\n", "\n "}}));
    } else {
      fmt::print("{}\t{}\t{}\n", record["record"].get<uint64_t>(),
                 record["shard"].get<std::string>(), record["shard_record"].get<uint64_t>());
    }
  }
  if (options.json) fmt::print("\n]\n");
  return kExitDone;
}

}  // namespace

void AddPlanCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand(
      "plan", "Show what an order means before it is run: batches, memory, mixing");
  auto flags = std::make_shared<PlanFlags>();
  AddOrderFlags(*command, flags->order);
  AddMixFlags(*command, flags->order);
  AddPackFlags(*command, flags->pack);
  command->add_option("--rate", flags->rate, "records/s that training needs; default 10000")
      ->check(WholeNumber(1));
  command
      ->add_option("--price", flags->price,
                   "data in a store: price of 1,000 requests; default 0.0004, in dollars at Amazon "
                   "S3")
      ->check(FiniteNumber(0))
      ->type_name("PRICE");
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Examples:\n"
      "  shardfeed plan out/train@64 --shuffle 1 --world 8 --batch 256\n"
      "  shardfeed plan out/train@64 --shuffle --window 64MiB --chunk 256KiB --json\n"
      "  shardfeed plan out/tokens@64 --shuffle 1 --pack 4096 --lengths tokens --world 8\n"
      "  shardfeed plan out/web@64 out/code@8 --weights 0.8,0.2 --shuffle 1 --world 8\n");
  command->callback([flags, &options, exit] { *exit = Plan(*flags, options); });
}

void AddReplayCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand(
      "replay", "List the records of a batch, or find when a record is delivered");
  auto flags = std::make_shared<ReplayFlags>();
  AddOrderFlags(*command, flags->order);
  AddMixFlags(*command, flags->order);
  AddPackFlags(*command, flags->pack);
  command->add_option("--epoch", flags->epoch, "counted from 0; default 0")->check(WholeNumber(0));
  CLI::Option* step =
      command->add_option("--step", flags->step, "number of the batch on this rank; default 0")
          ->check(WholeNumber(0));
  command
      ->add_option("--find", flags->find,
                   "find when and where the record with this number is delivered")
      ->check(WholeNumber(0))
      ->excludes(step);
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Prints a line for each record: its number, its shard, and its number in the shard. With "
      "--pack,\na line for each part of a row: the row, these, the part's first element, and how "
      "many it has.\n\n"
      "Examples:\n"
      "  shardfeed replay out/train@64 --seed 1 --epoch 2 --step 1234 --batch 256 --rank 3 --world "
      "8\n"
      "  shardfeed replay out/train@64 --seed 1 --batch 256 --world 8 --find 90210\n");
  command->callback([flags, &options, exit] { *exit = Replay(*flags, options); });
}

}  // namespace shardfeed
