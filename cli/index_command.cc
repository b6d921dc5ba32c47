#include <charconv>
#include <memory>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/units.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "nlohmann/json.hpp"
#include "shard/index_build.h"
#include "shard/index_pack_write.h"
#include "shard/manifest_build.h"
#include "shard/spec.h"
#include "shard/text_index.h"
#include "shardfeed/version.h"

namespace shardfeed {
namespace {

struct IndexFlags {
  std::vector<std::string> specs;
  std::string export_format;
  bool import = false;
  bool manifest = false;
};

absl::StatusOr<Manifest> WriteManifestOf(const ShardSet& set, const IndexFlags& flags,
                                         const CommandOptions& options) {
  std::atomic<uint64_t> passed{0};
  const uint64_t total = SizeOfFiles(set.paths);
  ManifestBuildOptions building;
  building.threads = options.threads;
  building.stop = InterruptToken();
  building.bytes_passed = &passed;
  building.made_by = {{"tool", std::string("shardfeed " SHARDFEED_VERSION)}, {"command", "index"}};
  ProgressDisplay display(options, [&] {
    return Progress{.what = "reading",
                    .name = fmt::format("{}", fmt::join(flags.specs, " ")),
                    .done = passed,
                    .total = total,
                    .bytes = true};
  });
  return WriteManifest(set, building);
}

int Index(const IndexFlags& flags, const CommandOptions& options) {
  const Stopwatch watch;
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.specs);
  if (!set.ok()) return ReportError(set.status());
  if (flags.manifest && !set->sharded_name) {
    return ReportError(absl::InvalidArgumentError(
        fmt::format("--manifest describes a whole dataset: name it as stem@N instead of {}",
                    fmt::join(flags.specs, " "))));
  }
  // The sizes of objects are known only after they have been read.
  uint64_t total = SizeOfFiles(set->paths);
  const bool sizes_known = total > 0;
  std::atomic<uint64_t> indexed{0};
  std::atomic<uint64_t> passed{0};
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> index_bytes{0};
  // Shards are indexed in parallel; if there are more threads than shards, several threads work on
  // each shard.
  const int threads = ThreadCount(options.threads);
  IndexBuildOptions building;
  building.threads = std::max<int>(1, threads / static_cast<int>(set->paths.size()));
  building.stop = InterruptToken();
  building.bytes_passed = &passed;
  building.bytes_read = &bytes_read;
  // Of each shard.
  std::vector<std::vector<std::string>> notes_of(set->paths.size());
  absl::Status status;
  {
    ProgressDisplay display(options, [&] {
      return Progress{.what = "indexing",
                      .name = fmt::format("{}", fmt::join(flags.specs, " ")),
                      .done = passed,
                      .total = total,
                      .bytes = true};
    });
    status =
        ParallelFor(set->paths.size(), threads, InterruptToken(), [&](size_t i) -> absl::Status {
          const std::string& path = set->paths[i];
          IndexBuildOptions building_one = building;
          building_one.notes = &notes_of[i];
          absl::StatusOr<IndexSummary> summary = WriteIndex(path, building_one);
          if (!summary.ok()) return summary.status();
          records += summary->records;
          indexed += summary->shard_bytes;
          absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
              ShardIndex::Open(IndexPath(path));
          if (!index.ok()) return index.status();
          index_bytes += (*index)->bytes().size();
          if (flags.import) {
            absl::Status matches = CompareTextIndex(path, **index);
            if (!matches.ok()) return matches;
          }
          if (flags.export_format.empty()) return absl::OkStatus();
          return WriteTextIndex(TextIndexPath(path, flags.export_format), **index);
        });
  }
  if (status.ok()) {
    status = set->sharded_name ? WriteIndexPack(*set, InterruptToken())
                               : RefreshIndexPacks(set->paths, InterruptToken());
  }
  if (!status.ok()) return ReportError(set->version.CheckUnchanged(status));
  if (!sizes_known) total = indexed;
  absl::StatusOr<Manifest> manifest;
  if (flags.manifest) {
    manifest = WriteManifestOf(*set, flags, options);
    if (!manifest.ok()) return ReportError(set->version.CheckUnchanged(manifest.status()));
  }
  const double seconds = watch.Seconds();
  std::vector<std::string> notes;
  for (std::vector<std::string>& of_one : notes_of) {
    for (std::string& note : of_one) notes.push_back(std::move(note));
  }
  if (options.json) {
    nlohmann::ordered_json json = {{"shards", set->paths.size()},
                                   {"records", records.load()},
                                   {"bytes", total},
                                   {"bytes_read", bytes_read.load()},
                                   {"index_bytes", index_bytes.load()},
                                   {"seconds", seconds},
                                   {"peak_rss_bytes", PeakResidentBytes()}};
    if (flags.manifest) json["features"] = manifest->schema.features().size();
    if (!notes.empty()) json["notes"] = notes;
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!options.quiet) {
    fmt::print("{} shards, {} records indexed in {} ({} of {} read), {} of indexes\n",
               set->paths.size(), FormatCount(records), FormatDuration(seconds),
               FormatSize(bytes_read), FormatSize(total), FormatSize(index_bytes));
    PrintNotes(notes, "--json shows all");
    if (flags.manifest) {
      fmt::print("the manifest describes {}, with statistics: shardfeed inspect {} --statistics\n",
                 Counted(manifest->schema.features().size(), "feature"),
                 fmt::join(flags.specs, " "));
    }
  }
  return kExitDone;
}

}  // namespace

void AddIndexCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command =
      app.add_subcommand("index", "Write an index for each shard, whatever program wrote it");
  auto flags = std::make_shared<IndexFlags>();
  command->add_option("DATASET", flags->specs, "stem@N, stem@*, a folder, a glob, or files")
      ->required();
  command
      ->add_option(
          "--export", flags->export_format,
          "also write text indexes: dali (SHARD.idx) or tfindex (for the tfrecord package)")
      ->check(CLI::IsMember({"dali", "tfindex"}));
  command->add_flag("--import", flags->import,
                    "compare each text index (.idx or .tfindex) with its shard");
  command->add_flag("--manifest", flags->manifest,
                    "also write the manifest that other programs leave out: the schema and the "
                    "statistics, for which all records are read and checked");
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Indexes go to .shardfeed/ beside the shards, and those of a whole set (stem@N) also into "
      "one\n"
      "file, from which they are read in stores. Of raw shards, only the headers of large\n"
      "records are read. Indexes of compressed shards hold restart points, from which reading\n"
      "can start. Of tar archives (WebDataset), whose samples are read in place, the headers of\n"
      "the members are read.\n\n"
      "Examples:\n"
      "  shardfeed index 'old/train-*'\n"
      "  shardfeed index old/train@64 --manifest\n"
      "  shardfeed index 'data/train-{00000..00146}.tar'\n"
      "  shardfeed index out/train@64 --export dali\n");
  command->callback([flags, &options, exit] { *exit = Index(*flags, options); });
}

}  // namespace shardfeed
