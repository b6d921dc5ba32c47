#include <unistd.h>

#include <map>
#include <memory>

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
    images.CheckRecord(record, defects);
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
  const double seconds = watch.Seconds();

  uint64_t skipped = 0;
  bool unreadable = false;
  std::map<std::string, uint64_t> compressions;
  for (const ShardReport& shard : report->shards) {
    skipped += shard.skipped_bytes;
    ++compressions[std::string(CompressionName(shard.compression))];
    for (const Defect& defect : shard.defects) unreadable |= defect.kind == "unreadable";
  }
  for (const Defect& defect : report->manifest_defects) unreadable |= defect.kind == "unreadable";
  ShardNotes on_shards;
  for (const ShardReport& shard : report->shards) on_shards.Add(shard.notes);
  const std::vector<std::string> notes = on_shards.Take();
  const ImageCheck::Counts counts = images.counts();
  if (options.json) {
    nlohmann::ordered_json defects = nlohmann::ordered_json::array();
    for (const ShardReport& shard : report->shards) {
      for (const Defect& defect : shard.defects) defects.push_back(ToJson(defect));
    }
    for (const Defect& defect : report->manifest_defects) defects.push_back(ToJson(defect));
    nlohmann::ordered_json json = {
        {"shards", report->shards.size()},      {"records", report->num_records()},
        {"bytes", report->num_bytes()},         {"skipped_bytes", skipped},
        {"num_defects", report->num_defects()}, {"defects", defects},
        {"manifest", report->has_manifest},     {"seconds", seconds},
        {"peak_rss_bytes", PeakResidentBytes()}};
    if (flags.level == VerifyLevel::kImages) {
      json["images"] = {
          {"sound", counts.sound}, {"broken", counts.broken}, {"not_decoded", counts.not_decoded}};
    }
    if (!notes.empty()) json["notes"] = notes;
    // File names need not be UTF-8.
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    for (const ShardReport& shard : report->shards) {
      for (const Defect& defect : shard.defects) {
        fmt::print("{}: {}\n", defect.kind, OneLine(defect.detail));
      }
      if (shard.num_defects > shard.defects.size()) {
        fmt::print("{}: {} more defects\n", OneLine(shard.shard),
                   FormatCount(shard.num_defects - shard.defects.size()));
      }
    }
    for (const Defect& defect : report->manifest_defects) {
      fmt::print("{}: {}\n", defect.kind, OneLine(defect.detail));
    }
  }
  if (!options.json && !options.quiet) {
    PrintNotes(notes, "--json shows all");
    if (flags.level == VerifyLevel::kImages) {
      fmt::print("{} decoded, {} of them broken\n", Counted(counts.sound + counts.broken, "image"),
                 FormatCount(counts.broken));
      for (const auto& [why, count] : counts.not_decoded) {
        fmt::print("{} not decoded: {}\n", Counted(count, "image"), why);
      }
    }
    std::string kinds;
    for (const auto& [name, count] : compressions) {
      if (name != "none") kinds += fmt::format(", {} {}", count, name);
    }
    fmt::print(
        "{}{}, {}, {} in {} ({}/s): {}\n", Counted(report->shards.size(), "shard"), kinds,
        Counted(report->num_records(), "record"), FormatSize(report->num_bytes()),
        FormatDuration(seconds),
        FormatSize(static_cast<uint64_t>(report->num_bytes() / std::max(seconds, 1e-9))),
        report->num_defects() == 0
            ? Painted(Paint::kGood,
                      report->has_manifest ? "all intact and as in the manifest" : "all intact",
                      STDOUT_FILENO)
            : Painted(Paint::kBad, fmt::format("{} defects", FormatCount(report->num_defects())),
                      STDOUT_FILENO) +
                  fmt::format(", {} of records skipped", FormatSize(skipped)));
  }
  if (report->num_defects() == 0) return kExitDone;
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
      "for any defect and 3 if a file could not be read. In tar archives (WebDataset), every\n"
      "header is checked, and in MDS shards (MosaicML Streaming) the sizes of all columns;\n"
      "neither has checksums of contents. In ArrayRecord shards, the hashes of all chunks are\n"
      "checked.\n\n"
      "Examples:\n"
      "  shardfeed verify out/train@64\n"
      "  shardfeed verify 'data/train-{00000..00146}.tar' --level images\n"
      "  shardfeed verify 'old/*.tfrecord.gz' --level examples --json\n");
  command->callback([flags, &options, exit] { *exit = Verify(*flags, options); });
}

}  // namespace shardfeed
