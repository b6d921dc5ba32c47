#include "cli/reports/dataset_report.h"

#include <algorithm>
#include <utility>

#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "shard/declarations/sibling_classes.h"
#include "shard/names/names.h"
#include "shard/writing/shared_job.h"

namespace shardfeed {
namespace {

std::string NameOf(const DatasetReport& report, const Manifest& manifest) {
  const uint64_t count =
      report.only_shards.empty() ? manifest.shards.size() : report.output.count.value_or(0);
  return FormatSpec(report.output.directory, manifest.stem, count, report.output.suffix);
}

uint64_t NumRecords(const DatasetReport& report) {
  uint64_t sum = 0;
  for (const Manifest& manifest : report.manifests) sum += manifest.num_records();
  return sum;
}

uint64_t NumBytes(const DatasetReport& report) {
  uint64_t sum = 0;
  for (const Manifest& manifest : report.manifests) sum += manifest.num_bytes();
  return sum;
}

void PrintJson(const DatasetReport& report, const nlohmann::ordered_json& more) {
  nlohmann::ordered_json datasets = nlohmann::ordered_json::array();
  for (const Manifest& manifest : report.manifests) {
    datasets.push_back({{"dataset", NameOf(report, manifest)},
                        {"shards", manifest.shards.size()},
                        {"records", manifest.num_records()},
                        {"bytes", manifest.num_bytes()}});
  }
  nlohmann::ordered_json json;
  if (report.manifests.size() == 1) {
    json = datasets[0];
  } else {
    json = {{"datasets", datasets}, {"records", NumRecords(report)}, {"bytes", NumBytes(report)}};
  }
  if (!report.job.empty()) json["job"] = report.job;
  if (!report.only_shards.empty()) json["only_shards"] = FormatParts(report.only_shards, ",");
  json.update(more);
  json["notes"] = report.notes;
  json["skipped"] = report.skipped;
  json["shards_taken_over"] = report.shards_taken_over;
  json["datasets_complete"] = report.datasets_complete;
  json["seconds"] = report.seconds;
  json["peak_rss_bytes"] = PeakResidentBytes();
  fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void PrintNotesOf(const DatasetReport& report) {
  const Manifest& first = report.manifests.front();
  PrintNotes(report.notes, "the manifest has all");
  if (report.skipped == 1) {
    PrintNote("1 broken record was left out; the manifest lists it: " +
              first.skipped.first.front());
  } else if (report.skipped > 1) {
    PrintNote(
        fmt::format("{} broken records were left out; the manifest lists them, the first is {}",
                    FormatCount(report.skipped), first.skipped.first.front()));
  }
  if (report.datasets_complete > 0) {
    PrintNote(
        fmt::format("{} of {} datasets {} already complete and kept; --overwrite writes {} again",
                    report.datasets_complete, report.manifests.size(),
                    report.datasets_complete == 1 ? "was" : "were",
                    report.datasets_complete == 1 ? "it" : "them"));
  }
  if (report.shards_taken_over > 0) {
    PrintNote(
        fmt::format("{} shards were taken over from an earlier run", report.shards_taken_over));
  }
}

}  // namespace

void AddSuffixNote(std::string_view suffix, Compression compression,
                   std::vector<std::string>* notes) {
  std::string note = NoteOnSuffix(suffix, CompressionName(compression));
  if (!note.empty()) notes->push_back(std::move(note) + "; --compression does");
}

void AddSiblingNotes(const std::string& directory, const std::vector<Manifest>& written,
                     bool takes_class_map, std::vector<std::string>* notes) {
  for (const SiblingClasses& sibling : FindSiblingClasses(directory, written)) {
    const std::string remedy =
        fmt::format("; --class-map {} gives these the same numbers", sibling.dataset);
    notes->push_back(fmt::format("{} numbers its classes differently: {}{}", sibling.dataset,
                                 sibling.what, takes_class_map ? remedy : ""));
  }
}

void PrintReport(const DatasetReport& report, const CommandOptions& options,
                 const nlohmann::ordered_json& more) {
  if (options.json) return PrintJson(report, more);
  if (options.quiet) return;
  PrintNotesOf(report);
  for (const Manifest& manifest : report.manifests) {
    if (report.only_shards.empty() && manifest.num_records() < manifest.shards.size()) {
      PrintNote("there are more shards than records, so some are empty");
    }
    // What was taken over took no time, and what tasks have written took theirs.
    const bool is_commit = report.only_shards.empty() && !report.job.empty();
    const bool one = report.manifests.size() == 1 && report.datasets_complete == 0;
    const auto per_second = [&](uint64_t n) {
      return static_cast<uint64_t>(static_cast<double>(n) / std::max(report.seconds, 1e-9));
    };
    fmt::print("{}{}: {}, {} in {}{}\n", OneLine(NameOf(report, manifest)),
               report.only_shards.empty()
                   ? ""
                   : fmt::format(", shards {} of job {}", FormatParts(report.only_shards, ", "),
                                 report.job),
               Counted(manifest.num_records(), "record"), FormatSize(manifest.num_bytes()),
               Counted(manifest.shards.size(), "shard"),
               !one ? ""
               : report.shards_taken_over > 0 || is_commit
                   ? fmt::format(", {}", FormatDuration(report.seconds))
                   : fmt::format(", {} ({} records/s, {}/s)", FormatDuration(report.seconds),
                                 FormatCount(per_second(NumRecords(report))),
                                 FormatSize(per_second(NumBytes(report)))));
  }
}

}  // namespace shardfeed
