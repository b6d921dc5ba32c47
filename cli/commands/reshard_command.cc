// The commands reshard, merge, split and sample, which copy records into other shards without
// parsing them.

#include <cmath>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/flags/job_flags.h"
#include "cli/reports/dataset_report.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "convert/converter.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/declarations/tfds_info.h"
#include "shard/reshard/reshard.h"
#include "shard/schema/class_names.h"
#include "shard/spec/spec.h"
#include "shardfeed/version.h"

namespace shardfeed {
namespace {

struct ReshardFlags {
  std::vector<std::string> paths;  // datasets, then the output
  std::string compression = "keep";
  std::optional<int> level;
  std::string member_size;
  std::string shares;
  std::string records;
  std::optional<uint64_t> count;
  std::optional<double> share;
  uint64_t seed = 0;
  bool overwrite = false;
  bool no_sync = false;
  bool tfds = false;
  JobFlags job;
};

// One dataset to be written.
struct Part {
  OutputSpec output;  // includes the number of shards
  RecordSelection selection;
  std::vector<uint64_t> ends;
};

using PlanParts = std::function<absl::StatusOr<std::vector<Part>>(
    const ReshardInput& input, const OutputSpec& output, const ReshardFlags& flags)>;

struct ReshardCommand {
  std::string name;
  std::string help;
  std::string footer;
  size_t max_inputs;
  std::function<void(CLI::App&, ReshardFlags&)> declare;
  PlanParts plan;
};

Part MakePart(OutputSpec output, RecordSelection selection) {
  std::vector<uint64_t> ends = EvenEnds(selection.count(), *output.count);
  return {std::move(output), std::move(selection), std::move(ends)};
}

RecordSelection AllOf(const ReshardInput& input) {
  return RecordSelection::Runs({{0, input.num_records()}});
}

absl::StatusOr<std::vector<Part>> PlanReshard(const ReshardInput& input, const OutputSpec& output,
                                              const ReshardFlags&) {
  if (!output.count) {
    return absl::InvalidArgumentError(
        "the number of shards is missing: name the output as folder/name@N");
  }
  return std::vector<Part>{MakePart(output, AllOf(input))};
}

absl::StatusOr<std::vector<Part>> PlanMerge(const ReshardInput& input, const OutputSpec& output,
                                            const ReshardFlags& flags) {
  if (output.count) return PlanReshard(input, output, flags);
  Part part{output, AllOf(input), {}};
  part.output.count = input.num_shards();
  for (size_t i = 1; i <= input.num_shards(); ++i) part.ends.push_back(input.StartOf(i));
  return std::vector<Part>{std::move(part)};
}

absl::StatusOr<std::vector<Part>> PlanSplit(const ReshardInput& input, const OutputSpec& output,
                                            const ReshardFlags& flags) {
  absl::StatusOr<std::vector<Split>> splits = ParseSplits(flags.shares);
  if (!splits.ok()) return splits.status();
  std::vector<Part> parts;
  const auto total = static_cast<double>(input.num_records());
  const uint64_t shards = output.count.value_or(input.num_shards());
  double sum = 0;
  uint64_t begin = 0;
  for (const Split& split : *splits) {
    sum += split.share;
    const bool last = &split == &splits->back();
    const uint64_t end = last ? input.num_records()
                              : std::min<uint64_t>(std::llround(std::floor(sum * total + 1e-6)),
                                                   input.num_records());
    OutputSpec spec = output;
    spec.stem += "-" + split.name;
    spec.count = std::max<uint64_t>(
        1, std::llround(std::ceil(static_cast<double>(shards) * split.share - 1e-9)));
    parts.push_back(MakePart(std::move(spec), RecordSelection::Runs({{begin, end}})));
    begin = end;
  }
  return parts;
}

absl::StatusOr<std::vector<Part>> PlanSample(const ReshardInput& input, const OutputSpec& output,
                                             const ReshardFlags& flags) {
  const int given = (flags.records.empty() ? 0 : 1) + (flags.count ? 1 : 0) + (flags.share ? 1 : 0);
  if (given != 1) {
    return absl::InvalidArgumentError(
        "expected exactly one of --count K, --share P and --records 0-99,200-299");
  }
  if (!output.count) {
    return absl::InvalidArgumentError(
        "the number of shards is missing: name the output as folder/name@N");
  }
  if (!flags.records.empty()) {
    absl::StatusOr<std::vector<Range>> ranges = ParseRanges(flags.records, input.num_records());
    if (!ranges.ok()) return ranges.status();
    std::vector<RecordRun> runs;
    for (const Range& range : *ranges) runs.push_back({range.begin, range.end});
    return std::vector<Part>{MakePart(output, RecordSelection::Runs(runs))};
  }
  const uint64_t count =
      flags.count ? *flags.count
                  : static_cast<uint64_t>(
                        std::llround(*flags.share * static_cast<double>(input.num_records())));
  if (count > input.num_records()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} records requested, but the dataset has only {}", count, input.num_records()));
  }
  return std::vector<Part>{
      MakePart(output, RecordSelection::Sample(input.num_records(), count, flags.seed))};
}

// Prepares the job that a task with --only-shards belongs to, and sets the shards that it writes.
// Nullopt: there is no such flag.
absl::StatusOr<std::optional<SharedJob>> PrepareJob(const ReshardFlags& flags,
                                                    const OutputSpec& output,
                                                    ReshardOptions& resharding) {
  if (!flags.job.given()) return std::nullopt;
  WholeFlags others;
  if (flags.tfds) {
    others.emplace_back("--tfds",
                        "it describes complete datasets, and this one is not complete yet");
  }
  absl::StatusOr<std::vector<uint64_t>> shards = ShardsOf(flags.job, output, others);
  if (!shards.ok()) return shards.status();
  resharding.only_shards = *std::move(shards);
  WriteJobOptions options;
  options.encode = resharding.encode;
  options.overwrite = resharding.overwrite;
  options.sync = resharding.sync;
  absl::StatusOr<SharedJob> job =
      SharedJob::Prepare(output, options, flags.job.job, resharding.made_by);
  if (!job.ok()) return job.status();
  return *std::move(job);
}

// Sets how records are written, except for what depends on the input.
absl::Status SetOptions(const ReshardFlags& flags, const CommandOptions& options,
                        ReshardOptions* resharding) {
  if (!flags.member_size.empty()) {
    const std::optional<uint64_t> size = ParseSize(flags.member_size);
    if (!size || *size == 0) {
      return absl::InvalidArgumentError(
          fmt::format("--member-size {}: expected a size such as 256KiB", flags.member_size));
    }
    resharding->encode.member_bytes = *size;
  }
  resharding->encode.level = flags.level.value_or(resharding->encode.level);
  resharding->threads = options.threads;
  resharding->overwrite = flags.overwrite;
  resharding->sync = !flags.no_sync;
  resharding->stop = InterruptToken();
  return absl::OkStatus();
}

absl::StatusOr<Compression> CompressionOf(const ReshardFlags& flags, const ReshardInput& input) {
  const std::map<std::string, std::optional<Compression>> compressions = {
      {"keep", input.compression()},
      {"none", Compression::kNone},
      {"gzip", Compression::kGzip},
      {"zlib", Compression::kZlib}};
  const std::optional<Compression> compression = compressions.at(flags.compression);
  if (compression) return *compression;
  return absl::InvalidArgumentError(
      "the shards are compressed in different ways; choose one with --compression");
}

// Number of records that this run writes or takes over.
uint64_t CountRecords(const std::vector<Part>& parts, const ReshardOptions& resharding) {
  uint64_t total = 0;
  if (resharding.job == nullptr) {
    for (const Part& part : parts) total += part.selection.count();
    return total;
  }
  const std::vector<uint64_t>& ends = parts.front().ends;
  for (const uint64_t shard : resharding.only_shards) {
    total += ends[shard] - (shard == 0 ? 0 : ends[shard - 1]);
  }
  return total;
}

struct Written {
  std::vector<Manifest> manifests;    // manifests of the datasets written
  std::vector<uint64_t> only_shards;  // numbers given by --only-shards
};

absl::StatusOr<Written> Write(const ReshardCommand& command, const ReshardFlags& flags,
                              const std::vector<std::string>& specs, const OutputSpec& spec,
                              const CommandOptions& options, ReshardOptions resharding) {
  std::vector<ShardSet> sets;
  for (const std::string& name : specs) {
    absl::StatusOr<ShardSet> set = ResolveSpec(name);
    if (!set.ok()) return set.status();
    sets.push_back(*std::move(set));
  }
  std::atomic<uint64_t> indexed{0};
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> taken_over{0};
  std::atomic<uint64_t> total{0};
  const std::string name = fmt::format("{}", fmt::join(specs, " "));
  ProgressDisplay display(options, [&] {
    if (total == 0) {
      return Progress{.what = "indexing", .name = name, .done = indexed, .bytes = true};
    }
    return Progress{.what = "writing",
                    .name = flags.paths.back(),
                    .done = written + taken_over,
                    .total = total,
                    .taken_over = taken_over};
  });
  absl::StatusOr<ReshardInput> input =
      ReshardInput::Open(sets, options.threads, InterruptToken(), &indexed);
  if (!input.ok()) return input.status();
  absl::StatusOr<Compression> compression = CompressionOf(flags, *input);
  if (!compression.ok()) return compression.status();
  resharding.encode.compression = *compression;
  if (*compression == Compression::kNone && (flags.level || !flags.member_size.empty())) {
    return absl::InvalidArgumentError(NothingCompressed(flags.level ? "--level" : "--member-size"));
  }
  absl::StatusOr<std::vector<Part>> parts = command.plan(*input, spec, flags);
  if (!parts.ok()) return parts.status();
  resharding.records_written = &written;
  resharding.records_taken_over = &taken_over;
  resharding.made_by = {{"tool", std::string("shardfeed " SHARDFEED_VERSION)},
                        {"command", command.name},
                        {"source", name}};
  if (!flags.shares.empty()) resharding.made_by["split"] = flags.shares;
  if (!flags.records.empty()) resharding.made_by["records"] = flags.records;
  if (flags.count || flags.share) resharding.made_by["seed"] = fmt::format("{}", flags.seed);
  absl::StatusOr<std::optional<SharedJob>> job = PrepareJob(flags, spec, resharding);
  if (!job.ok()) return job.status();
  if (job->has_value()) resharding.job = &**job;
  total = CountRecords(*parts, resharding);
  Written done;
  for (const Part& part : *parts) {
    absl::StatusOr<Manifest> manifest =
        Reshard(*input, part.selection, part.ends, part.output, resharding);
    if (!manifest.ok()) return manifest.status();
    done.manifests.push_back(*std::move(manifest));
  }
  done.only_shards = std::move(resharding.only_shards);
  return done;
}

void Report(const ReshardFlags& flags, const OutputSpec& spec, const Written& written,
            double seconds, const CommandOptions& options) {
  const auto& [manifests, only_shards] = written;
  const auto name_of = [&](const Manifest& manifest) {
    const uint64_t count = flags.job.given() ? *spec.count : manifest.shards.size();
    return FormatSpec(spec.directory, manifest.stem, count, spec.suffix);
  };
  std::vector<std::string> notes = manifests.front().notes;
  AddSuffixNote(spec.suffix, manifests.front().compression, &notes);
  const size_t shards_taken_over =
      flags.job.given() ? only_shards.size() - manifests.front().shards.size() : 0;
  if (options.json) {
    nlohmann::ordered_json datasets = nlohmann::ordered_json::array();
    for (const Manifest& manifest : manifests) {
      datasets.push_back({{"dataset", name_of(manifest)},
                          {"shards", manifest.shards.size()},
                          {"records", manifest.num_records()},
                          {"bytes", manifest.num_bytes()}});
    }
    nlohmann::ordered_json json = {{"datasets", datasets}, {"notes", notes}};
    if (flags.job.given()) {
      json["job"] = flags.job.job;
      json["only_shards"] = FormatParts(only_shards, ",");
      json["shards_taken_over"] = shards_taken_over;
    }
    json["seconds"] = seconds;
    json["peak_rss_bytes"] = PeakResidentBytes();
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  if (options.quiet) return;
  uint64_t bytes = 0;
  if (shards_taken_over > 0) {
    PrintNote(fmt::format("{} shards were taken over from an earlier run", shards_taken_over));
  }
  PrintNotes(notes, "the manifest has all");
  const std::string only = FormatParts(only_shards, ", ");
  for (const Manifest& manifest : manifests) {
    bytes += manifest.num_bytes();
    fmt::print("{}{}: {}, {} in {}\n", name_of(manifest),
               only.empty() ? "" : fmt::format(", shards {} of job {}", only, flags.job.job),
               Counted(manifest.num_records(), "record"), FormatSize(manifest.num_bytes()),
               Counted(manifest.shards.size(), "shard"));
  }
  fmt::print(
      "{}, {}/s\n", FormatDuration(seconds),
      FormatSize(static_cast<uint64_t>(static_cast<double>(bytes) / std::max(seconds, 1e-9))));
}

int Run(const ReshardCommand& command, const ReshardFlags& flags, const CommandOptions& options) {
  const Stopwatch watch;
  std::vector<std::string> specs = flags.paths;
  specs.pop_back();
  if (specs.empty() || specs.size() > command.max_inputs) {
    return ReportError(absl::InvalidArgumentError(
        fmt::format("{} {} given; usage: shardfeed {} {} OUT", flags.paths.size(),
                    flags.paths.size() == 1 ? "name is" : "names are", command.name,
                    command.max_inputs == 1 ? "DATASET" : "DATASET...")));
  }
  absl::StatusOr<OutputSpec> spec = ParseOutputSpec(flags.paths.back());
  if (!spec.ok()) return ReportError(spec.status());
  if (flags.tfds && IsRemote(spec->directory)) {
    return ReportError(absl::InvalidArgumentError(kNoTfdsInStores));
  }
  ReshardOptions resharding;
  if (absl::Status set = SetOptions(flags, options, &resharding); !set.ok()) {
    return ReportError(set);
  }
  const absl::StatusOr<Written> written =
      Write(command, flags, specs, *spec, options, std::move(resharding));
  if (!written.ok()) return ReportError(written.status());
  if (flags.tfds) {
    const FeatureClasses& classes = written->manifests.front().classes;
    const auto of_label = classes.find(kClassLabel);
    absl::Status described =
        WriteTfdsInfo(spec->directory, of_label == classes.end() ? std::vector<std::string>()
                                                                 : NamesInOrder(of_label->second));
    if (!described.ok()) return ReportError(described);
  }
  Report(flags, *spec, *written, watch.Seconds(), options);
  return kExitDone;
}

std::vector<ReshardCommand> Commands() {
  return {
      {"reshard", "Write a dataset with another number of shards",
       "Raw shards with a manifest are copied, not read; others are read and checked. Records and\n"
       "their order do not change.\n\n"
       "Examples:\n"
       "  shardfeed reshard old/train@1024 out/train@64\n"
       "  shardfeed reshard out/train@64 out/small@64 --compression gzip\n\n"
       "Many processes write a dataset together with --only-shards, on any machines that share "
       "the\n"
       "folder, and 'commit' makes it appear:\n"
       "  shardfeed reshard old/train@1024 out/train@64 --only-shards 0-7 --job 4711\n"
       "  shardfeed commit out/train@64 --job 4711\n",
       1, [](CLI::App& command, ReshardFlags& flags) { AddJobFlags(command, flags.job); },
       PlanReshard},
      {"merge", "Concatenate datasets",
       "Without @N, each shard stays whole.\n\n"
       "Examples:\n"
       "  shardfeed merge out/a@8 out/b@8 out/both\n"
       "  shardfeed merge out/a@8 out/b@8 out/both@4\n",
       SIZE_MAX, [](CLI::App&, ReshardFlags&) {}, PlanMerge},
      {"split", "Cut a dataset into several, by ranges of records",
       "The first share gets the first records, and so on: shuffle first, or use convert\n"
       "tfrecord --split, which decides by the records' content.\n\n"
       "Example:\n"
       "  shardfeed split out/all@64 out/all --shares train=0.9,test=0.1\n",
       1,
       [](CLI::App& command, ReshardFlags& flags) {
         command
             .add_option("--shares", flags.shares,
                         "share of each dataset OUT-NAME: train=0.9,test=0.1")
             ->required()
             ->type_name("NAME=SHARE,...");
       },
       PlanSplit},
      {"sample", "Copy some of a dataset's records, chosen at random or by number",
       "The order does not change. A random sample is uniform over all sets of that size.\n\n"
       "Examples:\n"
       "  shardfeed sample out/train@64 out/few@1 --count 1000 --seed 7\n"
       "  shardfeed sample out/train@64 out/part@1 --records 0-999,5000-5999\n",
       1,
       [](CLI::App& command, ReshardFlags& flags) {
         command.add_option("--count", flags.count, "number of records")->check(WholeNumber(0));
         command.add_option("--share", flags.share, "fraction of the records")
             ->check(FiniteNumber(0, 1));
         command
             .add_option("--records", flags.records,
                         "numbers of the records, from 0: 5, 10-19, 100-")
             ->type_name("RANGES");
         command.add_option("--seed", flags.seed, "seed of the random choice; default 0")
             ->check(WholeNumber(0));
       },
       PlanSample}};
}

}  // namespace

void AddReshardCommands(CLI::App& app, CommandOptions& options, int* exit) {
  for (const ReshardCommand& one : Commands()) {
    CLI::App* command = app.add_subcommand(one.name, one.help);
    auto flags = std::make_shared<ReshardFlags>();
    command
        ->add_option("PATHS", flags->paths,
                     one.max_inputs == 1
                         ? "DATASET OUT: stem@N, stem@*, a folder, a glob or a file; folder/name@N"
                         : "DATASET... OUT: stem@N, stem@*, a folder, a glob or a file each; "
                           "folder/name[@N]")
        ->required()
        ->expected(1, -1);
    one.declare(*command, *flags);
    command->add_option("--compression", flags->compression, "keep (default), none, gzip or zlib")
        ->check(CLI::IsMember({"keep", "none", "gzip", "zlib"}))
        ->type_name("KIND")
        ->default_str("keep");
    command->add_option("--level", flags->level, "compression level: 1 (fast) to 9 (small)")
        ->check(CLI::Range(1, 9))
        ->default_str("6");
    command->add_option(
        "--member-size", flags->member_size,
        "size of the pieces of compressed data at which a reader can start; default 256KiB");
    command->add_flag("--overwrite", flags->overwrite, "replace a dataset of the same name");
    command->add_flag(
        "--tfds", flags->tfds,
        "describe all datasets of the output folder for TFDS, as convert --tfds does");
    command->add_flag("--no-sync", flags->no_sync, "do not wait until everything is on disk");
    AddCacheOptions(*command, options);
    AddCommonOptions(*command, options);
    command->footer(one.footer);
    command->callback([one, flags, &options, exit] { *exit = Run(one, *flags, options); });
  }
}

}  // namespace shardfeed
