#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/units.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "nlohmann/json.hpp"
#include "reader/scan.h"
#include "shard/spec.h"

namespace shardfeed {
namespace {

struct ReadFlags {
  std::vector<std::string> specs;
  CrcCheck check = CrcCheck::kAll;
};

int Read(const ReadFlags& flags, const CommandOptions& options) {
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.specs);
  if (!set.ok()) return ReportError(set.status());
  uint64_t total = 0;
  for (const std::string& path : set->paths) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(path, error);
    if (!error) total += size;
  }
  std::atomic<uint64_t> passed{0};
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> payload_bytes{0};
  ScanOptions scanning;
  scanning.threads = options.threads;
  scanning.check = flags.check;
  scanning.stop = InterruptToken();
  scanning.bytes_passed = &passed;
  const Stopwatch watch;
  absl::Status status;
  {
    ProgressDisplay display(options, [&] {
      return ProgressDisplay::State{
          .what = "reading", .done = passed, .total = total, .bytes = true};
    });
    status = ScanDataset(*set, scanning, [&](size_t, const RecordBlock& block) {
      uint64_t bytes = 0;
      for (const Record& record : block.records) bytes += record.payload.size();
      records += block.records.size();
      payload_bytes += bytes;
      return absl::OkStatus();
    });
  }
  if (!status.ok()) return ReportError(status);
  const double seconds = std::max(watch.Seconds(), 1e-9);
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"shards", set->paths.size()},
        {"records", records.load()},
        {"bytes", total},
        {"payload_bytes", payload_bytes.load()},
        {"seconds", seconds},
        {"records_per_second", static_cast<double>(records) / seconds},
        {"bytes_per_second", static_cast<double>(total) / seconds},
        {"threads", ThreadCount(options.threads)},
        {"peak_rss_bytes", PeakResidentBytes()}};
    fmt::print("{}\n", json.dump(1));
  } else if (!options.quiet) {
    fmt::print("{} records, {} in {}: {} records/s, {}/s on {} threads\n", FormatCount(records),
               FormatSize(total), FormatDuration(seconds),
               FormatCount(static_cast<uint64_t>(static_cast<double>(records) / seconds)),
               FormatSize(static_cast<uint64_t>(static_cast<double>(total) / seconds)),
               ThreadCount(options.threads));
  }
  return kExitDone;
}

}  // namespace

void AddReadCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command =
      app.add_subcommand("read", "Read everything once, shards in parallel, and tell how fast");
  auto flags = std::make_shared<ReadFlags>();
  command->add_option("DATASET", flags->specs, "stem@N, stem@*, a folder, a glob, or files")
      ->required();
  const std::map<std::string, CrcCheck> checks = {
      {"all", CrcCheck::kAll}, {"header", CrcCheck::kHeader}, {"none", CrcCheck::kNone}};
  command
      ->add_option("--checksum", flags->check,
                   "which CRCs are checked: all (default), header or none")
      ->transform(CLI::CheckedTransformer(checks))
      ->type_name("WHICH")
      ->default_str("all");
  AddCommonOptions(*command, options);
  command->footer(
      "Examples:\n"
      "  shardfeed read out/train@64\n"
      "  shardfeed read 'old/train-*' --json\n");
  command->callback([flags, &options, exit] { *exit = Read(*flags, options); });
}

}  // namespace shardfeed
