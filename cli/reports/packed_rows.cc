#include "cli/reports/packed_rows.h"

#include <algorithm>
#include <numeric>

#include "cli/flags/common_flags.h"
#include "cli/terminal/console.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

void AppendRow(const PackedWindow& window, size_t row, uint64_t number,
               std::vector<PlacedPart>* parts) {
  for (const PackedPart& part : window.row(row)) parts->push_back({number, part});
}

}  // namespace

void AddPackFlags(CLI::App& command, PackFlags& flags) {
  CLI::Option* length =
      command
          .add_option("--pack", flags.length,
                      "pack sequences into rows of this many elements, as pack(lengths=...) does; "
                      "--batch then counts rows")
          ->check(WholeNumber(1))
          ->type_name("LENGTH");
  CLI::Option* lengths =
      command
          .add_option("--lengths", flags.lengths,
                      "--pack, --steps: name of the lengths, as given to 'index --length'")
          ->type_name("NAME");
  length->needs(lengths);
  CLI::Option* steps =
      command
          .add_flag(
              "--steps", flags.steps,
              "make a row of each step of episodes, as steps(lengths=...) does; --batch counts "
              "rows then")
          ->needs(lengths)
          ->excludes(length);
  command
      .add_option(
          "--pack-how", flags.how,
          "--pack: best_fit (default), first_fit, or concatenate, which cuts sequences where "
          "a row ends")
      ->check(CLI::IsMember({"best_fit", "first_fit", "concatenate"}))
      ->type_name("HOW")
      ->needs(length);
  command
      .add_option("--longer", flags.longer,
                  "--pack: what to do with sequences longer than a row: refuse (default), truncate "
                  "or split")
      ->check(CLI::IsMember({"refuse", "truncate", "split"}))
      ->type_name("WHAT")
      ->needs(length);
  command
      .add_option("--pack-window", flags.window,
                  "--pack, --steps: number of records whose rows are made together; default "
                  "16384; for --steps, as many as fit in 256 MiB, up to 1024")
      ->check(WholeNumber(1));
  command
      .add_option("--min-length", flags.min_length, "--pack: leave out records that are shorter")
      ->check(WholeNumber(0))
      ->needs(length);
  command.add_option("--max-length", flags.max_length, "--pack: leave out records that are longer")
      ->check(WholeNumber(0))
      ->needs(length);
  command
      .add_flag("--separated", flags.separated,
                "--pack: each sequence takes one more element, as with pack(separator=...)")
      ->needs(length);
  command
      .add_option("--cost", flags.cost,
                  "--pack: what ranks share evenly in each step: linear (default: elements) or "
                  "quadratic (the squares of lengths, which is the cost of attention)")
      ->check(CLI::IsMember({"linear", "quadratic"}))
      ->type_name("COST")
      ->needs(length);
  command
      .add_option("--steps-before", flags.steps_before,
                  "--steps: number of steps at the beginning of an episode that do not become rows")
      ->check(WholeNumber(0))
      ->needs(steps);
  command
      .add_option("--steps-after", flags.steps_after,
                  "--steps: number of steps at the end of an episode that do not become rows")
      ->check(WholeNumber(0))
      ->needs(steps);
}

absl::StatusOr<std::optional<PackSpec>> PackSpecOf(const PackFlags& flags) {
  if (flags.steps) {
    return PackSpec{.lengths = flags.lengths,
                    .length = 1,
                    .how = PackSpec::How::kSteps,
                    .window = flags.window,
                    .steps_before = flags.steps_before,
                    .steps_after = flags.steps_after};
  }
  if (flags.length == 0) {
    if (flags.lengths.empty() && flags.window == 0) return std::nullopt;
    return absl::InvalidArgumentError(fmt::format(
        "{} requires --pack or --steps", flags.lengths.empty() ? "--pack-window" : "--lengths"));
  }
  return PackSpec{
      .lengths = flags.lengths,
      .length = flags.length,
      .how = flags.how == "best_fit"    ? PackSpec::How::kBestFit
             : flags.how == "first_fit" ? PackSpec::How::kFirstFit
                                        : PackSpec::How::kConcatenate,
      .longer = flags.longer == "split"      ? PackSpec::Longer::kSplit
                : flags.longer == "truncate" ? PackSpec::Longer::kTruncate
                                             : PackSpec::Longer::kRefuse,
      .window = flags.window,
      .min_length = flags.min_length,
      .max_length = flags.max_length,
      .separated = flags.separated,
      .cost = flags.cost == "quadratic" ? PackSpec::Cost::kQuadratic : PackSpec::Cost::kLinear};
}

absl::StatusOr<PackedEpoch> DescribePackedEpoch(const Reader& reader) {
  const PackPlan& plan = *reader.shared_pack();
  const bool quadratic = plan.spec().cost == PackSpec::Cost::kQuadratic;
  struct Row {
    uint64_t elements = 0;
    uint64_t cost = 0;
  };
  std::vector<std::vector<Row>> windows(plan.num_windows());
  absl::Status status =
      plan.ForEachWindow(0, InterruptToken(), [&](uint64_t window, const PackedWindow& rows) {
        for (size_t i = 0; i < rows.rows(); ++i) {
          Row& row = windows[window].emplace_back();
          for (const PackedPart& part : rows.row(i)) {
            row.elements += part.count;
            row.cost += quadratic ? part.count * part.count : part.count;
          }
        }
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  const uint64_t world = reader.options().world;
  const uint64_t round = world * reader.options().batch;
  PackedEpoch epoch;
  epoch.left_out = plan.CountLeftOut(0);
  for (const auto& window : windows) epoch.rows += window.size();
  epoch.batches_per_rank = epoch.rows / round;
  epoch.left_over = epoch.rows % round;
  std::vector<uint64_t> of_rank(world);
  double balances = 0;
  uint64_t row = 0;
  for (const auto& window : windows) {
    for (const auto& [elements, cost] : window) {
      epoch.elements += elements;
      of_rank[row++ % world] += cost;
      if (row % round > 0) continue;
      const uint64_t sum = std::accumulate(of_rank.begin(), of_rank.end(), uint64_t{0});
      const uint64_t most = *std::max_element(of_rank.begin(), of_rank.end());
      balances += static_cast<double>(most * world) / static_cast<double>(sum);
      std::fill(of_rank.begin(), of_rank.end(), 0);
    }
  }
  if (epoch.batches_per_rank > 0) {
    epoch.balance = balances / static_cast<double>(epoch.batches_per_rank);
  }
  return epoch;
}

absl::StatusOr<std::vector<PlacedPart>> PartsOfBatch(const Reader& reader, uint64_t epoch,
                                                     uint64_t step) {
  const PackPlan& plan = *reader.shared_pack();
  const ReaderOptions& options = reader.options();
  absl::StatusOr<std::vector<uint64_t>> before = plan.RowsBefore(epoch, InterruptToken());
  if (!before.ok()) return before.status();
  const uint64_t batches = before->back() / options.world / options.batch;
  if (step >= batches) {
    return absl::OutOfRangeError(fmt::format(
        "--step {}: epoch {} has {} batches of rows, numbered from 0", step, epoch, batches));
  }
  std::vector<PlacedPart> parts;
  for (uint64_t i = 0; i < options.batch; ++i) {
    const uint64_t row = (step * options.batch + i) * options.world + options.rank;
    const size_t window =
        std::upper_bound(before->begin(), before->end(), row) - before->begin() - 1;
    const absl::StatusOr<std::shared_ptr<const PackedWindow>> rows =
        plan.Window(epoch, plan.PlaceOf(window, (*before)[window]));
    if (!rows.ok()) return rows.status();
    AppendRow(**rows, row - (*before)[window], row, &parts);
  }
  return parts;
}

absl::StatusOr<std::vector<PlacedPart>> PartsOfItem(const Reader& reader, uint64_t epoch,
                                                    uint64_t item) {
  const PackPlan& plan = *reader.shared_pack();
  absl::StatusOr<std::vector<uint64_t>> before = plan.RowsBefore(epoch, InterruptToken());
  if (!before.ok()) return before.status();
  const uint64_t window = reader.order().PositionOf(epoch, item) / plan.window_records();
  const absl::StatusOr<std::shared_ptr<const PackedWindow>> rows =
      plan.Window(epoch, plan.PlaceOf(window, (*before)[window]));
  if (!rows.ok()) return rows.status();
  std::vector<PlacedPart> parts;
  for (size_t i = 0; i < (*rows)->rows(); ++i) {
    AppendRow(**rows, i, (*before)[window] + i, &parts);
  }
  std::erase_if(parts, [&](const PlacedPart& placed) { return placed.part.item != item; });
  const uint64_t round = reader.options().world * reader.options().batch;
  for (PlacedPart& placed : parts) placed.delivered = placed.row < before->back() / round * round;
  return parts;
}

}  // namespace shardfeed
