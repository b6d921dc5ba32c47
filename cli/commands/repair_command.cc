// The repair command: copies the intact records of a damaged dataset into a new one and reports
// what is lost.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/terminal/console.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "shard/declarations/tfds_features.h"
#include "shard/manifest/manifest.h"
#include "shard/spec/spec.h"
#include "shardfeed/verify.h"
#include "shardfeed/version.h"

namespace shardfeed {
namespace {

struct RepairFlags {
  std::string dataset;
  std::string output;
  bool dry_run = false;
  bool overwrite = false;
  bool no_sync = false;
};

nlohmann::ordered_json OrNull(const std::optional<uint64_t>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
}

std::string Lost(const DamagedPlace& place) {
  const char* const about = place.record_exact ? "" : "about ";
  if (!place.records)
    return fmt::format("an unknown number of records from {}number {} on is lost", about,
                       place.record);
  if (*place.records == 0) return "no record is lost";
  if (*place.records == 1) return fmt::format("record {}{} is lost", about, place.record);
  return fmt::format("records {}{} to {} are lost", about, place.record,
                     place.record + *place.records - 1);
}

// What a dataset of TFDS loses because its types are in a file of its own. The manifest of the
// output has these notes, too.
std::vector<std::string> NotesOfTfds(const ShardSet& input) {
  if (FindManifest(input) != nullptr) return {};
  absl::StatusOr<std::optional<TfdsDeclared>> tfds = FindTfdsDeclared(input);
  return tfds.ok() && *tfds ? std::move((*tfds)->notes) : std::vector<std::string>();
}

void Print(const RepairAccount& account, const std::vector<std::string>& notes,
           const RepairFlags& flags, double seconds, const CommandOptions& options) {
  if (options.json) {
    nlohmann::ordered_json shards = nlohmann::ordered_json::array();
    for (const ShardAccount& shard : account.shards) {
      nlohmann::ordered_json damage = nlohmann::ordered_json::array();
      for (const DamagedPlace& place : shard.damage) {
        damage.push_back({{"kind", place.kind},
                          {"record", place.record},
                          {"record_exact", place.record_exact},
                          {"records_lost", OrNull(place.records)},
                          {"offset", place.offset},
                          {"bytes", place.bytes},
                          {"file_begin", place.file_begin},
                          {"file_end", place.file_end},
                          {"detail", place.detail}});
      }
      shards.push_back({{"shard", shard.shard},
                        {"missing", shard.missing},
                        {"records", shard.records},
                        {"records_lost", OrNull(shard.records_lost)},
                        {"skipped_bytes", shard.bytes_skipped},
                        {"damage", damage}});
    }
    const nlohmann::ordered_json json = {{"dry_run", flags.dry_run},
                                         {"records", account.records()},
                                         {"records_lost", OrNull(account.records_lost())},
                                         {"shards", shards},
                                         {"notes", notes},
                                         {"seconds", seconds},
                                         {"peak_rss_bytes", PeakResidentBytes()}};
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  for (const ShardAccount& shard : account.shards) {
    for (const DamagedPlace& place : shard.damage) {
      fmt::print("{}: {}; {}; bytes {} to {} of the file\n", place.kind, OneLine(place.detail),
                 Lost(place), place.file_begin, place.file_end);
    }
  }
  if (options.quiet) return;
  PrintNotes(notes, "--json shows all");
  const std::optional<uint64_t> lost = account.records_lost();
  fmt::print("{} records {}, {} lost\n", FormatCount(account.records()),
             flags.dry_run ? "can be kept" : "kept",
             lost ? FormatCount(*lost) : std::string("an unknown number"));
}

int RunRepair(const RepairFlags& flags, const CommandOptions& options) {
  const Stopwatch watch;
  absl::StatusOr<ShardSet> input = ResolveForRepair(flags.dataset);
  if (!input.ok()) return ReportError(input.status());
  absl::StatusOr<OutputSpec> output = ParseOutputSpec(flags.output);
  if (!output.ok()) return ReportError(output.status());
  RepairOptions repairing;
  repairing.dry_run = flags.dry_run;
  repairing.threads = options.threads;
  repairing.overwrite = flags.overwrite;
  repairing.sync = !flags.no_sync;
  repairing.stop = InterruptToken();
  repairing.made_by = {{"tool", std::string("shardfeed " SHARDFEED_VERSION)},
                       {"command", "repair"},
                       {"source", flags.dataset}};
  std::atomic<uint64_t> passed{0};
  repairing.bytes_passed = &passed;
  const uint64_t total = SizeOfFiles(input->paths);
  absl::StatusOr<RepairAccount> account;
  {
    ProgressDisplay display(options, [&] {
      return Progress{.what = flags.dry_run ? "checking" : "repairing",
                      .name = flags.dataset,
                      .done = passed,
                      .total = total,
                      .bytes = true};
    });
    account = Repair(*input, *output, repairing);
  }
  if (!account.ok()) return ReportError(account.status());
  Print(*account, NotesOfTfds(*input), flags, watch.Seconds(), options);
  return account->records_lost() == 0 ? kExitDone : kExitDefects;
}

}  // namespace

void AddRepairCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command =
      app.add_subcommand("repair", "Copy the intact records of a damaged dataset into a new one");
  auto flags = std::make_shared<RepairFlags>();
  command->add_option("DATASET", flags->dataset, "stem@N, stem@*, a folder, a glob, or a file")
      ->required();
  command
      ->add_option("OUT", flags->output,
                   "folder/name: the new dataset, which has as many shards as the old one")
      ->required();
  command->add_flag("--dry-run", flags->dry_run, "write nothing; print what would be lost");
  command->add_flag("--overwrite", flags->overwrite, "replace an existing dataset named OUT");
  command->add_flag("--no-sync", flags->no_sync,
                    "do not wait until everything is on disk: faster, but the data is lost if the "
                    "machine crashes soon after");
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Shard i of OUT gets the intact records of shard i, in the same order and with the same\n"
      "compression. DATASET is never changed. For each damaged place, the shard, the bytes and\n"
      "the lost records are reported; all records of a missing shard are lost. The exit status\n"
      "is 1 if records were lost, otherwise 0.\n\n"
      "Examples:\n"
      "  shardfeed repair old/train@64 new/train --dry-run\n"
      "  shardfeed repair old/train@64 new/train --json > account.json\n");
  command->callback([flags, &options, exit] { *exit = RunRepair(*flags, options); });
}

}  // namespace shardfeed
