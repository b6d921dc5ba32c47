#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/terminal/color.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "decode/images/image_check.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "shard/formats/shard_notes.h"
#include "shard/spec/spec.h"
#include "shardfeed/verify.h"

namespace shardfeed {
namespace {

struct VerifyFlags {
  std::vector<std::string> specs;
  VerifyLevel level = VerifyLevel::kPayload;
};

nlohmann::ordered_json ToJson(const Defect& defect) {
  return {{"shard", defect.shard},
          {"kind", defect.kind},
          {"record", defect.record},
          {"offset", defect.offset},
          {"detail", defect.detail}};
}

// What was found, and how long that took.
struct Findings {
  VerifyReport report;
  std::vector<std::string> notes;
  std::optional<ImageCheck::Counts> images;  // with VerifyLevel::kImages
  double seconds = 0;
};

uint64_t SkippedBytes(const VerifyReport& report) {
  uint64_t sum = 0;
  for (const ShardReport& shard : report.shards) sum += shard.skipped_bytes;
  return sum;
}

std::vector<Defect> DefectsIn(const VerifyReport& report) {
  std::vector<Defect> defects;
  for (const ShardReport& shard : report.shards) {
    defects.insert(defects.end(), shard.defects.begin(), shard.defects.end());
  }
  defects.insert(defects.end(), report.manifest_defects.begin(), report.manifest_defects.end());
  return defects;
}

nlohmann::ordered_json ToJson(const Findings& found) {
  const VerifyReport& report = found.report;
  nlohmann::ordered_json defects = nlohmann::ordered_json::array();
  for (const Defect& defect : DefectsIn(report)) defects.push_back(ToJson(defect));
  nlohmann::ordered_json json = {
      {"shards", report.shards.size()},       {"records", report.num_records()},
      {"bytes", report.num_bytes()},          {"skipped_bytes", SkippedBytes(report)},
      {"num_defects", report.num_defects()},  {"defects", defects},
      {"manifest", report.has_manifest},      {"seconds", found.seconds},
      {"peak_rss_bytes", PeakResidentBytes()}};
  if (found.images) {
    json["images"] = {{"sound", found.images->sound},
                      {"broken", found.images->broken},
                      {"not_decoded", found.images->not_decoded}};
  }
  if (!found.notes.empty()) json["notes"] = found.notes;
  return json;
}

void PrintDefects(const VerifyReport& report) {
  for (const ShardReport& shard : report.shards) {
    for (const Defect& defect : shard.defects) {
      fmt::print("{}: {}\n", defect.kind, OneLine(defect.detail));
    }
    if (shard.num_defects > shard.defects.size()) {
      fmt::print("{}: {} more defects\n", OneLine(shard.shard),
                 FormatCount(shard.num_defects - shard.defects.size()));
    }
  }
  for (const Defect& defect : report.manifest_defects) {
    fmt::print("{}: {}\n", defect.kind, OneLine(defect.detail));
  }
}

void PrintSummary(const Findings& found) {
  const VerifyReport& report = found.report;
  PrintNotes(found.notes, "--json shows all");
  if (found.images) {
    fmt::print("{} decoded, {} of them broken\n",
               Counted(found.images->sound + found.images->broken, "image"),
               FormatCount(found.images->broken));
    for (const auto& [why, count] : found.images->not_decoded) {
      fmt::print("{} not decoded: {}\n", Counted(count, "image"), why);
    }
  }
  std::map<std::string, uint64_t> compressions;
  for (const ShardReport& shard : report.shards) {
    ++compressions[std::string(CompressionName(shard.compression))];
  }
  std::string kinds;
  for (const auto& [name, count] : compressions) {
    if (name != "none") kinds += fmt::format(", {} {}", count, name);
  }
  const std::string verdict =
      report.num_defects() == 0
          ? Painted(Paint::kGood,
                    report.has_manifest ? "all intact and as in the manifest" : "all intact",
                    STDOUT_FILENO)
          : Painted(Paint::kBad, fmt::format("{} defects", FormatCount(report.num_defects())),
                    STDOUT_FILENO) +
                fmt::format(", {} of records skipped", FormatSize(SkippedBytes(report)));
  fmt::print("{}{}, {}, {} in {} ({}/s): {}\n", Counted(report.shards.size(), "shard"), kinds,
             Counted(report.num_records(), "record"), FormatSize(report.num_bytes()),
             FormatDuration(found.seconds),
             FormatSize(static_cast<uint64_t>(report.num_bytes() / std::max(found.seconds, 1e-9))),
             verdict);
}

int Verify(const VerifyFlags& flags, const CommandOptions& options) {
  const Stopwatch watch;
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.specs);
  if (!set.ok()) return ReportError(set.status());
  std::atomic<uint64_t> passed{0};
  const uint64_t total = SizeOfFiles(set->paths);
  VerifyOptions verifying;
  verifying.level = flags.level;
  verifying.threads = options.threads;
  verifying.stop = InterruptToken();
  ImageCheck images;
  verifying.check_images = [&images](std::string_view record, std::vector<std::string>* defects) {
    return images.CheckRecord(record, defects);
  };
  verifying.bytes_passed = &passed;
  absl::StatusOr<VerifyReport> report;
  {
    ProgressDisplay display(options, [&] {
      return Progress{.what = "verifying",
                      .name = fmt::format("{}", fmt::join(flags.specs, " ")),
                      .done = passed,
                      .total = total,
                      .bytes = true};
    });
    report = Verify(*set, verifying);
  }
  if (!report.ok()) return ReportError(report.status());

  Findings found{.report = *std::move(report), .seconds = watch.Seconds()};
  ShardNotes on_shards;
  for (const ShardReport& shard : found.report.shards) on_shards.Add(shard.notes);
  found.notes = on_shards.Take();
  if (flags.level == VerifyLevel::kImages) found.images = images.counts();
  if (options.json) {
    // File names need not be UTF-8.
    fmt::print("{}\n", ToJson(found).dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    PrintDefects(found.report);
    if (!options.quiet) PrintSummary(found);
  }
  if (found.report.num_defects() == 0) return kExitDone;
  const std::vector<Defect> defects = DefectsIn(found.report);
  const bool unreadable = std::any_of(defects.begin(), defects.end(), [](const Defect& defect) {
    return defect.kind == "unreadable";
  });
  return unreadable ? kExitIo : kExitDefects;
}

}  // namespace

void AddVerifyCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand("verify", "Check every byte and locate each defect");
  auto flags = std::make_shared<VerifyFlags>();
  command
      ->add_option("DATASET", flags->specs,
                   "stem@N, stem@*, a folder, a glob, files, or URLs of these")
      ->required();
  const std::vector<std::pair<std::string, VerifyLevel>> levels = {
      {"headers", VerifyLevel::kHeaders},
      {"payload", VerifyLevel::kPayload},
      {"examples", VerifyLevel::kExamples},
      {"images", VerifyLevel::kImages}};
  command
      ->add_option(
          "--level", flags->level,
          "headers: lengths and their CRCs; payload (default): all CRCs and compressed "
          "data; examples: also that every record is a tf.train.Example; images: also that every "
          "image in them can be decoded")
      ->transform(OneOf(levels))
      ->type_name("LEVEL")
      ->default_str("payload");
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Continues after damage: a bad payload loses only its record, a bad length the bytes up to\n"
      "the next record. Indexes and the manifest are compared with the data. The exit status is 1\n"
      "for any defect and 3 if a file could not be read or there is no memory for an image. In\n"
      "tar archives (WebDataset), every header is checked, and in MDS shards (MosaicML Streaming)\n"
      "the sizes of all columns; neither has checksums of contents. In ArrayRecord shards, the\n"
      "hashes of all chunks are checked.\n\n"
      "Examples:\n"
      "  shardfeed verify out/train@64\n"
      "  shardfeed verify 'data/train-{00000..00146}.tar' --level images\n"
      "  shardfeed verify 'old/*.tfrecord.gz' --level examples --json\n");
  command->callback([flags, &options, exit] { *exit = Verify(*flags, options); });
}

}  // namespace shardfeed
