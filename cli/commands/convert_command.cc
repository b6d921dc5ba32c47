#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/commands/python_commands.h"
#include "cli/flags/common_flags.h"
#include "cli/flags/convert_kinds.h"
#include "cli/flags/job_flags.h"
#include "cli/reports/convert_preview.h"
#include "cli/reports/convert_progress.h"
#include "cli/reports/dataset_report.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/standard_input.h"
#include "cli/terminal/units.h"
#include "convert/converter.h"
#include "convert/input/path_globs.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/remedy.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/declarations/named_manifest.h"
#include "shard/declarations/tfds_info.h"
#include "shard/schema/class_names.h"
#include "shard/schema/skipped_records.h"
#include "shardfeed/version.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

struct ConvertFlags {
  std::vector<std::string> paths;  // sources, then the output
  Compression compression = Compression::kNone;
  int level = 6;
  std::string shard_size;
  std::string member_size;
  std::optional<uint64_t> shuffle;
  bool no_shuffle = false;
  std::optional<uint64_t> limit;
  std::string on_error = "fail";
  std::optional<std::string> max_skipped;
  std::string splits;
  std::string like;
  bool dedup = false;
  bool resume = false;
  bool overwrite = false;
  bool no_sync = false;
  bool tfds = false;
  bool dry_run = false;
  JobFlags job;
};

// Returns the folder for the copy of standard input that a dry run makes.
std::string TemporaryFolder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return error ? "/tmp" : folder.string();
}

// Returns the value of a size option, or `fallback` if the option was not given.
absl::StatusOr<uint64_t> SizeOption(std::string_view name, const std::string& text,
                                    uint64_t fallback) {
  if (text.empty()) return fallback;
  const std::optional<uint64_t> size = ParseSize(text);
  if (size && *size > 0) return *size;
  return absl::InvalidArgumentError(
      fmt::format("{} {}: expected a size such as 256MiB or 1GB", name, text));
}

// Prepares the job that a task with --only-shards belongs to, and sets the shards that it writes.
// Nullopt: there is no such flag.
absl::StatusOr<std::optional<SharedJob>> PrepareJob(const ConvertFlags& flags,
                                                    const std::vector<std::string>& sources,
                                                    bool has_split_column,
                                                    ConvertOptions& converting) {
  if (!flags.job.given()) return std::nullopt;
  WholeFlags others;
  if (flags.resume) {
    others.emplace_back("--resume", "a task that runs again keeps what is finished in any case");
  }
  if (!flags.splits.empty()) {
    others.emplace_back("--split", "a job writes one dataset; convert tfrecord --split divides it");
  }
  if (has_split_column) {
    others.emplace_back("--split-column", "a job writes one dataset");
  }
  if (flags.tfds) {
    others.emplace_back("--tfds",
                        "it describes complete datasets, and this one is not complete yet");
  }
  if (!flags.shard_size.empty()) {
    others.emplace_back("--shard-size", "all tasks need one number of shards, OUT@N");
  }
  if (std::any_of(sources.begin(), sources.end(), StandardInput::Is)) {
    others.emplace_back("standard input (-) or a pipe",
                        "each task reads the whole input; name files");
  }
  absl::StatusOr<std::vector<uint64_t>> shards = ShardsOf(flags.job, converting.output, others);
  if (!shards.ok()) return shards.status();
  converting.only_shards = *std::move(shards);
  WriteJobOptions options;
  options.encode = converting.encode;
  options.overwrite = converting.overwrite;
  options.sync = converting.sync;
  absl::StatusOr<SharedJob> job =
      SharedJob::Prepare(converting.output, options, flags.job.job, converting.made_by);
  if (!job.ok()) return job.status();
  return *std::move(job);
}

// Standard input and pipes among the sources.
using Inputs = std::vector<std::unique_ptr<StandardInput>>;

std::string WithNames(const Inputs& inputs, std::string text) {
  for (const std::unique_ptr<StandardInput>& input : inputs)
    text = input->WithName(std::move(text));
  return text;
}

// Returns the sources with globs expanded. For "-" and pipes, adds to `inputs` and uses their
// paths.
absl::StatusOr<std::vector<std::string>> FindSources(const ConvertKind& kind,
                                                     std::vector<std::string> sources,
                                                     const std::string& directory,
                                                     const CommandOptions& options,
                                                     Inputs& inputs) {
  if (kind.resolves_specs) return sources;
  bool standard_input = false;
  for (std::string& source : sources) {
    if (absl::Status status = CheckIsPath(source); !status.ok()) return status;
    if (!StandardInput::Is(source)) continue;
    if (!kind.reads_standard_input) {
      return absl::InvalidArgumentError(
          fmt::format("{} cannot be read from {}: name files", kind.name,
                      source == "-" ? "standard input" : "the pipe " + source));
    }
    if (source == "-" && std::exchange(standard_input, true)) {
      return absl::InvalidArgumentError("standard input (-) appears twice");
    }
    std::atomic<uint64_t> copied{0};
    const std::string what = source == "-" ? "reading standard input" : "reading " + source;
    ProgressDisplay display(options, [&copied, &what] {
      return Progress{.what = what, .done = copied, .bytes = true};
    });
    absl::StatusOr<std::unique_ptr<StandardInput>> opened =
        StandardInput::Open(source, directory, InterruptToken(), copied);
    if (!opened.ok()) return opened.status();
    source = (*opened)->path();
    inputs.push_back(*std::move(opened));
  }
  return ExpandGlobs(sources);
}

// Returns the options of this kind that were given, as they were given, and those whose default the
// help names. Appends the size and modification time of files among their values to `fingerprint`,
// and these files to `files`.
std::string KindOptions(const CLI::App& command, const std::set<std::string>& common,
                        std::string* fingerprint, std::vector<std::string>* files) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (common.count(option->get_name()) > 0) continue;
    std::vector<std::string> values = option->results();
    if (option->count() == 0) {
      if (option->get_default_str().empty()) continue;
      values = {option->get_default_str()};
    }
    text += fmt::format("{}{}", text.empty() ? "" : " ", option->get_name());
    for (const std::string& value : values) {
      if (option->get_expected_max() > 0) text += " " + value;
      struct stat stat;
      if (::stat(value.c_str(), &stat) != 0) continue;
      // A pipe is another one each time, even under the same name.
      if (!S_ISREG(stat.st_mode) && !S_ISFIFO(stat.st_mode)) continue;
      files->push_back(value);
      *fingerprint += fmt::format("{} {} {} {}\n", value, stat.st_size, stat.st_mtim.tv_sec,
                                  stat.st_mtim.tv_nsec);
    }
  }
  return text;
}

// Null: the command has no such option. CLI::App::get_option_no_throw would end the process if
// memory ran out.
const CLI::Option* FindOption(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_name() == name) return option;
  }
  return nullptr;
}

bool IsGiven(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = FindOption(command, name);
  return option != nullptr && option->count() > 0;
}

// Reads the dataset of --like and takes its compression over.
absl::Status ReadLike(const ConvertFlags& flags, const CLI::App& command,
                      ConvertOptions& converting) {
  if (flags.like.empty()) return absl::OkStatus();
  absl::StatusOr<NamedManifest> like = ReadNamedManifest(flags.like);
  if (!like.ok()) return like.status();
  if (!IsGiven(command, "--compression")) {
    converting.encode.compression = like->manifest.compression;
  }
  converting.made_by["like"] = flags.like;
  converting.fingerprint += fmt::format("like {:08x}\n", Crc32c(FormatManifest(like->manifest)));
  converting.like = *std::move(like);
  return absl::OkStatus();
}

// InvalidArgument: an option was given that only compression uses, and there is none.
absl::Status CheckUsed(const CLI::App& command, Compression compression) {
  if (compression != Compression::kNone) return absl::OkStatus();
  for (const char* option : {"--level", "--member-size"}) {
    if (IsGiven(command, option)) return absl::InvalidArgumentError(NothingCompressed(option));
  }
  return absl::OkStatus();
}

// Takes over from the dataset of --like the options that determine what values mean, as if they had
// been given. InvalidArgument: another value was given.
absl::Status TakeOptionsOfLike(CLI::App& command, const NamedManifest& like) {
  const auto& made_by = like.manifest.made_by;
  const auto by = made_by.find("command");
  if (by == made_by.end() || !by->second.starts_with("convert ")) return absl::OkStatus();
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool of_images = name == "--jpeg" || name == "--resize-shorter" || name == "--quality";
    if (!of_images && name != "--dates" && name != "--na") continue;
    const std::optional<std::string> theirs = OptionOf(like.manifest, name);
    if (option->count() == 0) {
      if (!theirs) continue;
      option->add_result(*theirs);
      option->run_callback();
      continue;
    }
    const std::string given = fmt::format("{}", fmt::join(option->results(), " "));
    // Without dates or texts for missing values, these options have no meaning.
    if (theirs ? given == *theirs : !of_images) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{} {}: {} was written {}; leave one of {} and --like out", name, given, like.name,
        theirs ? fmt::format("with {} {}", name, *theirs) : "without it", name));
  }
  return absl::OkStatus();
}

// Returns the number of skipped records: those that the source skipped, which every manifest
// counts, and those skipped while each dataset was written.
uint64_t SkippedInAll(const std::vector<Manifest>& manifests, uint64_t in_scan) {
  uint64_t sum = in_scan;
  for (const Manifest& manifest : manifests) {
    // A dataset that was already complete may come from a source with fewer broken records.
    sum += manifest.skipped.count - std::min(manifest.skipped.count, in_scan);
  }
  return sum;
}

// Returns why a dataset that was kept because it was complete may be out of date: it names the
// first path that was modified after the dataset was written, or that is a pipe, whose content is
// not known any more. Empty if there is no such path. A folder is modified when files are added to
// it.
std::string WhyOutOfDate(const std::vector<std::string>& paths, const Inputs& inputs,
                         const std::string& manifest) {
  struct stat written;
  if (::stat(manifest.c_str(), &written) != 0) return "";
  const auto time_of = [](const struct stat& info) {
    return std::pair(info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  };
  for (const std::string& path : paths) {
    const std::string name = WithNames(inputs, path);
    struct stat info;
    if (name != path) return fmt::format("what {} has now was not read", name);
    if (::stat(path.c_str(), &info) != 0 || time_of(info) <= time_of(written)) continue;
    if (S_ISFIFO(info.st_mode)) return fmt::format("what {} has now was not read", path);
    return fmt::format("{} was modified after that", path);
  }
  return "";
}

// Sets what the flags say about the output and how it is written.
absl::Status SetOptions(const ConvertFlags& flags, const std::string& output,
                        const CommandOptions& options, ConvertOptions& converting) {
  absl::StatusOr<OutputSpec> spec = ParseOutputSpec(output);
  if (!spec.ok()) return spec.status();
  if (flags.tfds && IsRemote(spec->directory)) return absl::InvalidArgumentError(kNoTfdsInStores);
  if (spec->count && !flags.shard_size.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{} already gives the number of shards: pass @{} or --shard-size, not both",
                    output, *spec->count));
  }
  converting.output = *std::move(spec);
  absl::StatusOr<uint64_t> size =
      SizeOption("--shard-size", flags.shard_size, converting.shard_bytes);
  if (!size.ok()) return size.status();
  converting.shard_bytes = *size;
  size = SizeOption("--member-size", flags.member_size, converting.encode.member_bytes);
  if (!size.ok()) return size.status();
  converting.encode.member_bytes = *size;
  converting.encode.compression = flags.compression;
  converting.encode.level = flags.level;
  converting.threads = options.threads;
  converting.limit = flags.limit;
  converting.skip_defects = flags.on_error == "skip";
  if (flags.max_skipped) {
    if (!converting.skip_defects) {
      return absl::InvalidArgumentError(
          "--max-skipped: nothing is skipped without --on-error skip");
    }
    const absl::StatusOr<SkipCeiling> ceiling = ParseMaxSkipped(*flags.max_skipped);
    if (!ceiling.ok()) return ceiling.status();
    converting.max_skipped = *ceiling;
  }
  converting.deduplicate = flags.dedup;
  converting.resume = flags.resume;
  if (!flags.splits.empty()) {
    absl::StatusOr<std::vector<Split>> splits = ParseSplits(flags.splits);
    if (!splits.ok()) return splits.status();
    converting.splits = *std::move(splits);
  }
  converting.overwrite = flags.overwrite;
  converting.sync = !flags.no_sync;
  converting.stop = InterruptToken();
  if (!flags.no_shuffle) converting.shuffle_seed = flags.shuffle;
  return absl::OkStatus();
}

// Takes over what --like determines, and sets what the manifest says about the origin of the
// dataset. `files` gets the files among the values of the kind's options.
absl::Status SetOrigin(const ConvertKind& kind, CLI::App& command,
                       const std::set<std::string>& common, const ConvertFlags& flags,
                       const std::vector<std::string>& sources, ConvertOptions& converting,
                       std::vector<std::string>* files) {
  // Record only what the result depends on, so not the number of threads.
  converting.made_by = {
      {"tool", std::string("shardfeed " SHARDFEED_VERSION)},
      {"command", "convert " + kind.name},
      {"source", fmt::format("{}", fmt::join(sources, " "))},
      {"shuffle",
       converting.shuffle_seed ? fmt::format("seed {}", *converting.shuffle_seed) : "no"},
  };
  if (converting.skip_defects) converting.made_by["on_error"] = "skip";
  if (converting.deduplicate) converting.made_by["dedup"] = "by content";
  if (!flags.splits.empty()) converting.made_by["split"] = flags.splits;
  absl::Status status = ReadLike(flags, command, converting);
  if (status.ok()) status = CheckUsed(command, converting.encode.compression);
  if (status.ok() && converting.like) status = TakeOptionsOfLike(command, *converting.like);
  if (!status.ok()) return status;
  if (const std::string given = KindOptions(command, common, &converting.fingerprint, files);
      !given.empty()) {
    converting.made_by["options"] = given;
  }
  if (flags.limit) converting.made_by["limit"] = fmt::format("{}", *flags.limit);
  if (flags.splits.empty() && IsGiven(command, "--split-key")) {
    return absl::InvalidArgumentError(
        "--split-key needs --split, such as --split train=0.9,val=0.1");
  }
  if (flags.tfds && converting.encode.compression != Compression::kNone) {
    return absl::InvalidArgumentError(
        "--tfds cannot be combined with --compression: TFDS reads raw shards only");
  }
  return absl::OkStatus();
}

// Describes the folder of the output for TFDS.
absl::Status DescribeForTfds(const Source& source, const std::string& directory) {
  const FeatureClasses classes = source.classes();
  const auto of_label = classes.find(kClassLabel);
  return WriteTfdsInfo(directory, of_label == classes.end() ? std::vector<std::string>()
                                                            : NamesInOrder(of_label->second));
}

// Returns what the command prints at its end, except for how long it took. `inputs_to_resume` are
// the paths whose changes make a dataset that was kept out of date.
DatasetReport ReportOn(const CLI::App& command, const Source& source,
                       const ConvertOptions& converting, const ConvertProgress& progress,
                       const Inputs& inputs, const std::vector<std::string>& inputs_to_resume,
                       std::vector<Manifest> manifests) {
  DatasetReport report;
  // Notes are about the input, so all splits have the same ones.
  report.notes = manifests.front().notes;
  for (std::string& note : source.built_notes()) {
    report.notes.push_back(WithNames(inputs, std::move(note)));
  }
  if (converting.like && converting.encode.compression != Compression::kNone &&
      !IsGiven(command, "--compression")) {
    report.notes.push_back(fmt::format("compressed with {}, as {} is",
                                       CompressionName(converting.encode.compression),
                                       converting.like->name));
  }
  const OutputSpec& output = converting.output;
  AddSuffixNote(output.suffix, converting.encode.compression, &report.notes);
  // A user who has chosen the numbers of the classes needs no note about them.
  if (converting.only_shards.empty() && !converting.like && !IsGiven(command, "--class-map")) {
    AddSiblingNotes(output.directory, manifests, FindOption(command, "--class-map") != nullptr,
                    &report.notes);
  }
  if (progress.datasets_complete > 0) {
    const std::string why = WhyOutOfDate(inputs_to_resume, inputs,
                                         ManifestPath(output.directory, manifests.front().stem));
    if (!why.empty()) {
      report.notes.push_back(fmt::format(
          "the dataset was complete and is kept, although {}; pass --overwrite to convert it again",
          why));
    }
  }
  report.skipped = SkippedInAll(manifests, progress.skipped_in_scan);
  report.manifests = std::move(manifests);
  report.output = output;
  report.shards_taken_over = progress.shards_taken_over;
  report.datasets_complete = progress.datasets_complete;
  report.only_shards = converting.only_shards;
  return report;
}

int Convert(const ConvertKind& kind, CLI::App& command, const std::set<std::string>& common,
            const MakeSource& make_source, const ConvertFlags& flags,
            const CommandOptions& options) {
  const Stopwatch watch;
  std::vector<std::string> sources = flags.paths;
  const bool named = sources.size() > 1 || !flags.dry_run;
  const std::string output = named ? sources.back() : "preview";
  if (named) sources.pop_back();
  if (sources.empty()) {
    return ReportError(absl::InvalidArgumentError(fmt::format(
        "only one path is given; usage: shardfeed convert {} SOURCE... OUT@N", kind.name)));
  }
  if (flags.dry_run && flags.job.given()) {
    return ReportError(absl::InvalidArgumentError(
        "--dry-run cannot be combined with --only-shards: it shows the whole dataset"));
  }
  ConvertOptions converting;
  absl::Status status = SetOptions(flags, output, options, converting);
  if (!status.ok()) return ReportError(status);
  std::vector<std::string> inputs_to_resume;
  status = SetOrigin(kind, command, common, flags, sources, converting, &inputs_to_resume);
  if (!status.ok()) return ReportError(status);
  absl::StatusOr<std::optional<SharedJob>> job =
      PrepareJob(flags, sources, IsGiven(command, "--split-column"), converting);
  if (!job.ok()) return ReportError(job.status());
  if (job->has_value()) converting.job = &**job;

  Inputs inputs;
  const auto report_error = [&inputs](const absl::Status& error) {
    return ReportError(WithMessage(error, WithNames(inputs, std::string(error.message()))));
  };
  const std::string& directory = converting.output.directory;
  absl::StatusOr<std::vector<std::string>> paths = FindSources(
      kind, std::move(sources), flags.dry_run ? TemporaryFolder() : directory, options, inputs);
  if (!paths.ok()) return report_error(paths.status());
  if (!inputs.empty()) {
    converting.reword = [&inputs](std::string text) { return WithNames(inputs, std::move(text)); };
  }
  const uint64_t input_bytes = InputBytes(*paths);
  inputs_to_resume.insert(inputs_to_resume.begin(), paths->begin(), paths->end());
  absl::StatusOr<std::unique_ptr<Source>> source =
      make_source(*std::move(paths), converting.like ? &*converting.like : nullptr);
  if (!source.ok()) return report_error(source.status());
  if (flags.dry_run) {
    const std::string name = named ? output : flags.paths.front();
    return PreviewConversion(**source, converting, {name, named, input_bytes}, options);
  }
  ConvertProgress progress;
  absl::StatusOr<std::vector<Manifest>> manifests;
  {
    ProgressDisplay display(options, [&] { return PhaseOf(progress, input_bytes, output); });
    manifests = Convert(**source, converting, &progress);
  }
  if (!manifests.ok()) return report_error(manifests.status());
  if (flags.tfds) {
    status = DescribeForTfds(**source, directory);
    if (!status.ok()) return ReportError(status);
  }
  const double seconds = watch.Seconds();
  DatasetReport report = ReportOn(command, **source, converting, progress, inputs, inputs_to_resume,
                                  *std::move(manifests));
  report.seconds = seconds;
  report.job = flags.job.job;
  PrintReport(report, options);
  return report.skipped > 0 ? kExitDefects : kExitDone;
}

void AddKind(CLI::App& convert, const ConvertKind& kind, CommandOptions& options, int* exit) {
  CLI::App* command = convert.add_subcommand(kind.name, kind.help);
  auto flags = std::make_shared<ConvertFlags>();
  flags->shuffle = kind.default_shuffle;
  command
      ->add_option("PATHS", flags->paths,
                   "SOURCE... OUT, where OUT is folder/name@N[.suffix], or folder/name to have the "
                   "number of shards chosen by --shard-size")
      ->required()
      ->expected(1, -1);
  const std::vector<std::pair<std::string, Compression>> compressions = {
      {"none", Compression::kNone}, {"gzip", Compression::kGzip}, {"zlib", Compression::kZlib}};
  command->add_option("--compression", flags->compression, "none (default), gzip or zlib")
      ->transform(OneOf(compressions))
      ->type_name("KIND")
      ->default_str("none");
  command->add_option("--level", flags->level, "compression level: 1 (fast) to 9 (small)")
      ->check(CLI::Range(1, 9))
      ->capture_default_str();
  command->add_option("--shard-size", flags->shard_size,
                      "approximate size of a shard before compression; default 256MiB");
  command->add_option(
      "--member-size", flags->member_size,
      "size of the pieces of compressed data at which a reader can start; default 256KiB");
  CLI::Option* shuffle =
      command
          ->add_option("--shuffle", flags->shuffle,
                       kind.default_shuffle ? "seed of the shuffle, which is on by default"
                                            : "shuffle, with this seed")
          ->check(WholeNumber(0));
  command->add_flag("--no-shuffle", flags->no_shuffle, "keep the order of the source")
      ->excludes(shuffle);
  command->add_option("--limit", flags->limit, "write at most this many records")
      ->check(WholeNumber(0));
  command
      ->add_option("--on-error", flags->on_error,
                   "fail (default) or skip: what to do with a broken record")
      ->check(CLI::IsMember({"fail", "skip"}))
      ->type_name("WHAT")
      ->default_str("fail");
  command
      ->add_option(
          "--max-skipped", flags->max_skipped,
          "with --on-error skip: fail if more than this number or share of the records are "
          "broken; default 1%, but at least 10")
      ->type_name("N|P%");
  command
      ->add_option("--split", flags->splits,
                   "write several datasets, each named OUT-NAME: train=0.9,test=0.1; a hash of its "
                   "key determines the split of a record, which does not depend on other records")
      ->type_name("NAME=SHARE,...");
  command
      ->add_option(
          "--like", flags->like,
          "a dataset (stem@N, or a manifest) to match: its classes, kinds, compression, --dates, "
          "--na and options of images are used, and a feature of another kind is an error")
      ->type_name("DATASET");
  command->add_flag("--dedup", flags->dedup,
                    "keep only the first of records with the same content");
  command->add_flag(
      "--resume", flags->resume,
      "continue from the shards that an interrupted run finished, and keep the finished shards of "
      "this run if it is interrupted");
  command->add_flag("--overwrite", flags->overwrite, "replace a dataset of the same name");
  command->add_flag("--dry-run", flags->dry_run,
                    "write nothing; print the schema, notes, the first records, and what the "
                    "dataset's size and the time would be; OUT may be left out");
  command->add_flag("--tfds", flags->tfds,
                    "write dataset_info.json and features.json, so that "
                    "tfds.builder_from_directory opens the folder; its datasets are the splits");
  command->add_flag("--no-sync", flags->no_sync,
                    "do not wait until everything is on disk: faster, but the data is lost if the "
                    "machine crashes soon after");
  AddJobFlags(*command, flags->job);
  AddCommonOptions(*command, options);
  command->footer(kind.details);
  std::set<std::string> common;
  for (const CLI::Option* option : command->get_options()) common.insert(option->get_name());
  const MakeSource make_source = kind.declare(*command);
  command->callback([kind, command, common, make_source, flags, &options, exit] {
    *exit = Convert(kind, *command, common, make_source, *flags, options);
  });
}

}  // namespace

void AddConvertCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* convert = app.add_subcommand("convert", "Turn raw data into a sharded dataset");
  convert->require_subcommand(1);
  AddCommonOptions(*convert, options);
  convert->footer(
      "Writes shards, an index for each and a manifest, which appear together once all are "
      "complete.\n\n"
      "Examples:\n"
      "  shardfeed convert imagefolder photos/ out/train@64\n"
      "  shardfeed convert csv tables/*.csv out/table@4 --compression gzip\n\n"
      "Many processes write a dataset together with --only-shards, on any machines that share the\n"
      "folder, and 'commit' makes it appear:\n"
      "  shardfeed convert imagefolder photos/ out/train@64 --only-shards 0-7 --job 4711\n"
      "  shardfeed commit out/train@64 --job 4711\n\n"
      "The Python package also converts parquet, arrow, hdf5, npz, sqlite, lmdb and video.\n");
  for (const ConvertKind& kind : ConvertKinds()) AddKind(*convert, kind, options, exit);
  AddPythonKinds(*convert, exit);
}

}  // namespace shardfeed
