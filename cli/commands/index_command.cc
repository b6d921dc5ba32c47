#include <memory>

#include "base/clock.h"
#include "base/mutex.h"
#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/reports/length_report.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/file.h"
#include "nlohmann/json.hpp"
#include "shard/indexing/dataset_indexes.h"
#include "shard/indexing/text_index.h"
#include "shard/spec/spec.h"
#include "shard/verify/manifest_build.h"
#include "shardfeed/version.h"

namespace shardfeed {
namespace {

struct IndexFlags {
  std::vector<std::string> specs;
  std::string export_format;
  bool import = false;
  bool manifest = false;
  std::vector<std::string> lengths;
};

// What the indexes of all shards have. Thread-safe.
class IndexTotals {
 public:
  void Add(const ShardIndex& index) {
    MutexLock lock(mutex_);
    bytes_ += index.bytes().size();
    lengths_.Add(index);
  }
  uint64_t bytes() const {
    MutexLock lock(mutex_);
    return bytes_;
  }
  LengthReport lengths() const {
    MutexLock lock(mutex_);
    return lengths_;
  }

 private:
  mutable Mutex mutex_;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  LengthReport lengths_ ABSL_GUARDED_BY(mutex_);
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
  std::atomic<uint64_t> passed{0};
  std::atomic<uint64_t> bytes_read{0};
  IndexTotals totals;
  DatasetIndexesOptions indexing;
  indexing.lengths = flags.lengths;
  indexing.threads = options.threads;
  indexing.stop = InterruptToken();
  indexing.bytes_passed = &passed;
  indexing.bytes_read = &bytes_read;
  indexing.on_index = [&](size_t i, const ShardIndex& index) -> absl::Status {
    totals.Add(index);
    const std::string& path = set->paths[i];
    if (flags.import) {
      absl::Status matches = CompareTextIndex(path, index);
      if (!matches.ok()) return matches;
    }
    if (flags.export_format.empty()) return absl::OkStatus();
    return WriteTextIndex(TextIndexPath(path, flags.export_format), index);
  };
  absl::StatusOr<DatasetIndexes> indexed;
  {
    ProgressDisplay display(options, [&] {
      return Progress{.what = "indexing",
                      .name = fmt::format("{}", fmt::join(flags.specs, " ")),
                      .done = passed,
                      .total = total,
                      .bytes = true};
    });
    indexed = WriteIndexes(*set, indexing);
  }
  if (!indexed.ok()) return ReportError(indexed.status());
  if (!sizes_known) total = indexed->shard_bytes;
  absl::StatusOr<Manifest> manifest;
  if (flags.manifest) {
    manifest = WriteManifestOf(*set, flags, options);
    if (!manifest.ok()) return ReportError(set->version.CheckUnchanged(manifest.status()));
  }
  const double seconds = watch.Seconds();
  const LengthReport lengths = totals.lengths();
  if (options.json) {
    nlohmann::ordered_json json = {{"shards", set->paths.size()},
                                   {"records", indexed->records},
                                   {"bytes", total},
                                   {"bytes_read", bytes_read.load()},
                                   {"index_bytes", totals.bytes()},
                                   {"seconds", seconds},
                                   {"peak_rss_bytes", PeakResidentBytes()}};
    if (flags.manifest) json["features"] = manifest->schema.features().size();
    if (!lengths.empty()) json["lengths"] = lengths.ToJson();
    if (!flags.lengths.empty()) json["shards_measured"] = indexed->shards_measured;
    if (!indexed->notes.empty()) json["notes"] = indexed->notes;
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!options.quiet) {
    fmt::print("{} shards, {} records indexed in {} ({} of {} read), {} of indexes\n",
               set->paths.size(), FormatCount(indexed->records), FormatDuration(seconds),
               FormatSize(bytes_read), FormatSize(total), FormatSize(totals.bytes()));
    const uint64_t unread = set->paths.size() - indexed->shards_measured;
    if (!flags.lengths.empty() && unread > 0) {
      fmt::print("{} had these lengths already\n", Counted(unread, "shard"));
    }
    lengths.Print(fmt::format("{}", fmt::join(flags.specs, " ")));
    PrintNotes(indexed->notes, "--json shows all");
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
  CLI::App* command = app.add_subcommand(
      "index", "Write an index for each shard, including those of other programs");
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
  command
      ->add_option("--length", flags->lengths,
                   "also keep the length of this feature in each record (tokens), for which all "
                   "records are read and checked; can be given several times")
      ->type_name("FEATURE")
      ->allow_extra_args(false);
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Indexes go to .shardfeed/ beside the shards, and those of a whole set (stem@N, or a range\n"
      "such as train-{00000..00146}.tar) also into one file, from which they are read in stores.\n"
      "In raw shards, only the headers of large records are read. Indexes of compressed shards\n"
      "hold restart points, from which reading can start. In tar archives (WebDataset), whose\n"
      "samples are read in place, the headers of the members are read, in MDS shards (MosaicML\n"
      "Streaming) the offsets of the samples, and in ArrayRecord shards the footer.\n\n"
      "A length is a number of values, or of bytes if the feature has bytes, or of steps if it is\n"
      "a feature list. Lengths stay in the index as long as the shard has the same records.\n\n"
      "Examples:\n"
      "  shardfeed index 'old/train-*'\n"
      "  shardfeed index old/train@64 --manifest\n"
      "  shardfeed index 'data/train-{00000..00146}.tar'\n"
      "  shardfeed index data/mds\n"
      "  shardfeed index out/train@64 --length tokens\n"
      "  shardfeed index out/train@64 --export dali\n");
  command->callback([flags, &options, exit] { *exit = Index(*flags, options); });
}

}  // namespace shardfeed
