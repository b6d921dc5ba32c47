#include "cli/flags/order_flags.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>

#include "cli/flags/common_flags.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "shard/spec/spec.h"

namespace shardfeed {
namespace {

// Parses a number of records, given as such or as their total size: "2000", "256MiB".
absl::StatusOr<uint64_t> ParseRecords(std::string_view name, const std::string& text,
                                      const ShardTable& table) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && number > 0) return number;
  const std::optional<uint64_t> bytes = ParseSize(text);
  if (bytes && *bytes > 0) {
    return std::max<uint64_t>(1, *bytes / std::max<uint64_t>(1, table.mean_bytes()));
  }
  return absl::InvalidArgumentError(
      fmt::format("--{} '{}': expected a number of records or a size such as 64MiB", name, text));
}

// Parses "0.8,0.2" or "1000000:0.5,0.5".
absl::StatusOr<MixSegment> ParseWeights(const std::string& text, size_t datasets) {
  MixSegment segment;
  const absl::Status wrong = absl::InvalidArgumentError(
      fmt::format("--weights '{}': expected a number for each of {} datasets, such as 0.8,0.2, or "
                  "1000000:0.5,0.5 from a position on",
                  text, datasets));
  const char* at = text.data();
  const char* const end = at + text.size();
  if (const size_t colon = text.find(':'); colon != text.npos) {
    const auto [stop, error] = std::from_chars(at, at + colon, segment.position);
    if (error != std::errc() || stop != at + colon) return wrong;
    at += colon + 1;
  }
  while (true) {
    const auto [stop, error] = std::from_chars(at, end, segment.weights.emplace_back());
    if (error != std::errc() || (stop != end && *stop != ',')) return wrong;
    if (stop == end) break;
    at = stop + 1;
  }
  if (segment.weights.size() != datasets) return wrong;
  return segment;
}

absl::StatusOr<std::shared_ptr<const Mixture>> MakeMixture(const OrderFlags& flags) {
  auto mixture = std::make_shared<Mixture>();
  mixture->length = flags.length;
  mixture->seed = flags.mix_seed;
  for (const std::string& text : flags.weights) {
    absl::StatusOr<MixSegment> segment = ParseWeights(text, flags.specs.size());
    if (!segment.ok()) return segment.status();
    mixture->schedule.push_back(*std::move(segment));
  }
  for (const std::string& spec : flags.specs) {
    const absl::StatusOr<ShardSet> set = ResolveSpec(spec);
    if (!set.ok()) return set.status();
    mixture->sources.push_back({spec, set->paths.size(), {}});
  }
  return mixture;
}

// Refuses integers out of range. For what is no integer, the remedy may be another place of the
// option, which wrong_use.h tells.
CLI::Validator Seed() {
  const auto check = [](const std::string& text) {
    const bool is_integer = text.find_first_not_of("+-0123456789") == text.npos;
    return is_integer ? WholeNumber(0)(text) : std::string();
  };
  return CLI::Validator(check, "");
}

}  // namespace

void AddMixFlags(CLI::App& command, OrderFlags& flags) {
  CLI::Option* weights = command.add_option(
      "--weights", flags.weights,
      "mix the datasets by these weights, such as 0.8,0.2; repeat it with a position for the "
      "weights from there on, such as 1000000:0.5,0.5");
  weights->take_all()->allow_extra_args(false)->type_name("WEIGHTS");
  command
      .add_option("--length", flags.length,
                  "records of an epoch of a mixture; default: until a dataset would be repeated")
      ->check(WholeNumber(1))
      ->needs(weights);
  command
      .add_option("--mix-seed", flags.mix_seed,
                  "draw the datasets at random with this seed; default: as evenly as possible")
      ->check(WholeNumber(0))
      ->type_name("SEED")
      ->needs(weights);
}

void AddOrderFlags(CLI::App& command, OrderFlags& flags) {
  command
      .add_option("DATASET", flags.specs,
                  "stem@N, stem@*, a folder, a glob, files, or URLs of these")
      ->required();
  command.add_option("--order", flags.order, "sequential (default), interleave or shuffle")
      ->check(CLI::IsMember({"sequential", "interleave", "shuffle"}))
      ->type_name("ORDER");
  command
      .add_option("--shuffle,--seed", flags.seed,
                  "shuffle with this seed (default 0); each epoch has another order")
      ->check(Seed())
      ->expected(0, 1)
      ->default_str("0");
  command.add_option("--window", flags.window,
                     "shuffle: how many records are mixed at a time: a number, a size (default "
                     "256MiB), or all for the exact permutation");
  command.add_option(
      "--chunk", flags.chunk,
      "shuffle: how much is read at once: a number of records or a size (default 1MiB)");
  command
      .add_option(
          "--lanes", flags.lanes,
          "shuffle: equal slices of the epoch, visited in turn and assigned to ranks; default 64")
      ->check(WholeNumber(1));
  command.add_option("--cycle", flags.cycle, "interleave: shards read in turn; default 16")
      ->check(WholeNumber(1));
  command.add_option("--block", flags.block, "interleave: records taken at each turn; default 1")
      ->check(WholeNumber(1));
  command.add_option("--records", flags.records, "read only these records, such as 0,10-19,1000-");
  command.add_option("--rank", flags.rank, "the number of this rank; default 0")
      ->check(WholeNumber(0));
  command.add_option("--world", flags.world, "number of ranks; default 1")->check(WholeNumber(1));
  command.add_option("--batch", flags.batch, "records per batch; default 1")->check(WholeNumber(1));
  command
      .add_option(
          "--end", flags.end,
          "what to do with the incomplete last round of batches: drop (default), pad or wrap")
      ->check(CLI::IsMember({"drop", "pad", "wrap"}))
      ->type_name("WHAT");
  command.add_option("--budget", flags.budget,
                     "memory for reading ahead and the window, such as 256MiB; default: an eighth "
                     "of the free memory, up to 1GiB, and for stores at least 512MiB");
}

absl::StatusOr<std::shared_ptr<const ShardTable>> OpenTable(const OrderFlags& flags,
                                                            const CommandOptions& options,
                                                            bool salvage) {
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.specs);
  if (!set.ok()) return set.status();
  std::atomic<uint64_t> passed{0};
  ShardTableOptions opening;
  opening.threads = options.threads;
  opening.stop = InterruptToken();
  opening.bytes_indexed = &passed;
  opening.salvage = salvage;
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = [&] {
    ProgressDisplay display(
        options, [&] { return Progress{.what = "indexing", .done = passed, .bytes = true}; });
    return ShardTable::Open(*set, opening);
  }();
  if (table.ok()) NoteIndexes(**table, options);
  return table;
}

void NoteIndexes(const ShardTable& table, const CommandOptions& options) {
  if (options.quiet) return;
  if (table.shards_copied() > 0) {
    Say(fmt::format(
        "note: {} of {} shards are damaged and have no matching index; their intact records were "
        "copied to the folder for temporary files, which every run repeats; 'shardfeed repair' "
        "copies them once",
        table.shards_copied(), table.num_shards()));
  }
  if (table.requests_for_shards() > 0) {
    Say(fmt::format(
        "note: a manifest and an index pack would save {} requests, one or two for each shard; "
        "'shardfeed index' writes the pack",
        FormatCount(table.requests_for_shards())));
  }
  if (table.indexes_built() == 0) return;
  Say(fmt::format(
      "note: {} of {} shards had no index; {}", table.indexes_built(), table.num_shards(),
      table.indexes_not_kept() == 0 ? "they have one now"
      : table.remote() ? "they were built in memory; 'shardfeed index' writes them into the store"
                       : "they were built in memory because the folder cannot be written to"));
}

bool NeedNoTable(const OrderFlags& flags) {
  return flags.order != "shuffle" && !flags.seed && flags.window.empty() && flags.chunk.empty() &&
         flags.records.empty();
}

absl::StatusOr<ReaderOptions> MakeReaderOptions(const OrderFlags& flags, const ShardTable* table) {
  ReaderOptions reading;
  OrderSpec& order = reading.order;
  const bool shuffle = flags.order == "shuffle" || flags.seed || !flags.window.empty();
  if (shuffle && flags.order == "interleave") {
    return absl::InvalidArgumentError("--shuffle cannot be combined with --order interleave");
  }
  if (shuffle) {
    order.kind = OrderSpec::Kind::kShuffle;
  } else if (flags.order == "interleave") {
    order.kind = OrderSpec::Kind::kInterleave;
  }
  order.seed = flags.seed.value_or(0);
  order.lanes = flags.lanes;
  order.cycle = flags.cycle;
  order.block = flags.block;
  if (flags.window == "all") {
    order.window = OrderSpec::kAll;
  } else if (!flags.window.empty()) {
    absl::StatusOr<uint64_t> window = ParseRecords("window", flags.window, *table);
    if (!window.ok()) return window.status();
    order.window = *window;
  }
  if (!flags.chunk.empty()) {
    absl::StatusOr<uint64_t> chunk = ParseRecords("chunk", flags.chunk, *table);
    if (!chunk.ok()) return chunk.status();
    order.chunk = *chunk;
  }
  if (!flags.records.empty()) {
    absl::StatusOr<std::vector<Range>> ranges = ParseRanges(flags.records, table->num_records());
    if (!ranges.ok()) return ranges.status();
    reading.records.emplace();
    for (const Range& range : *ranges) {
      reading.records->push_back({range.begin, range.end - range.begin});
    }
  }
  if (!flags.weights.empty()) {
    absl::StatusOr<std::shared_ptr<const Mixture>> mixture = MakeMixture(flags);
    if (!mixture.ok()) return mixture.status();
    order.mixture = *std::move(mixture);
  }
  reading.rank = flags.rank;
  reading.world = flags.world;
  reading.batch = flags.batch;
  static const std::map<std::string, EpochEnd> ends = {
      {"drop", EpochEnd::kDrop}, {"pad", EpochEnd::kPad}, {"wrap", EpochEnd::kWrap}};
  reading.end = ends.at(flags.end);
  if (!flags.budget.empty()) {
    const std::optional<uint64_t> bytes = ParseSize(flags.budget);
    if (!bytes || *bytes == 0) {
      return absl::InvalidArgumentError(
          fmt::format("--budget '{}': expected a size such as 256MiB", flags.budget));
    }
    reading.budget_bytes = *bytes;
  }
  return reading;
}

}  // namespace shardfeed
