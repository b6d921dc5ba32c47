#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/convert_kinds.h"
#include "cli/standard_input.h"
#include "cli/units.h"
#include "convert/converter.h"
#include "convert/input_paths.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

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
  std::map<std::string, std::string> pictures;  // what becomes of them, by option
  bool overwrite = false;
  bool no_sync = false;
};

// The value of a size option, or `fallback` where it was not given.
absl::StatusOr<uint64_t> SizeOption(std::string_view name, const std::string& text,
                                    uint64_t fallback) {
  if (text.empty()) return fallback;
  const std::optional<uint64_t> size = ParseSize(text);
  if (size && *size > 0) return *size;
  return absl::InvalidArgumentError(
      fmt::format("{} {}: not a size such as 256MiB or 1GB", name, text));
}

// The sources with globs expanded; "-" becomes `input`, which is then set.
absl::StatusOr<std::vector<std::string>> FindSources(const ConvertKind& kind,
                                                     std::vector<std::string> sources,
                                                     const std::string& directory,
                                                     const CommandOptions& options,
                                                     std::unique_ptr<StandardInput>& input) {
  if (kind.resolves_specs) return sources;
  for (std::string& source : sources) {
    if (source != "-") continue;
    if (!kind.reads_standard_input) {
      return absl::InvalidArgumentError(
          fmt::format("{} is not read from standard input: name files", kind.name));
    }
    if (input != nullptr) return absl::InvalidArgumentError("standard input (-) is named twice");
    std::atomic<uint64_t> copied{0};
    ProgressDisplay display(options, [&copied] {
      return ProgressDisplay::State{
          .what = "reading standard input", .done = copied, .bytes = true};
    });
    absl::StatusOr<std::unique_ptr<StandardInput>> opened =
        StandardInput::Open(directory, InterruptToken(), copied);
    if (!opened.ok()) return opened.status();
    input = *std::move(opened);
    source = input->path();
  }
  return ExpandGlobs(sources);
}

int Convert(const ConvertKind& kind, const MakeSource& make_source, const ConvertFlags& flags,
            const CommandOptions& options) {
  const Stopwatch watch;
  std::vector<std::string> sources = flags.paths;
  const std::string output = sources.back();
  sources.pop_back();
  if (sources.empty()) {
    return ReportError(absl::InvalidArgumentError(fmt::format(
        "only one path is given; wanted: shardfeed convert {} SOURCE... OUT@N", kind.name)));
  }
  ConvertOptions converting;
  absl::StatusOr<OutputSpec> spec = ParseOutputSpec(output);
  if (!spec.ok()) return ReportError(spec.status());
  converting.output = *spec;
  if (spec->count && !flags.shard_size.empty()) {
    return ReportError(absl::InvalidArgumentError(
        fmt::format("{} says how many shards there will be: give @{} or --shard-size, not both",
                    output, *spec->count)));
  }
  absl::StatusOr<uint64_t> size =
      SizeOption("--shard-size", flags.shard_size, converting.shard_bytes);
  if (!size.ok()) return ReportError(size.status());
  converting.shard_bytes = *size;
  size = SizeOption("--member-size", flags.member_size, converting.encode.member_bytes);
  if (!size.ok()) return ReportError(size.status());
  converting.encode.member_bytes = *size;
  converting.encode.compression = flags.compression;
  converting.encode.compression_level = flags.level;
  converting.threads = options.threads;
  converting.limit = flags.limit;
  converting.skip_defects = flags.on_error == "skip";
  converting.overwrite = flags.overwrite;
  converting.sync = !flags.no_sync;
  converting.stop = InterruptToken();
  if (!flags.no_shuffle) converting.shuffle_seed = flags.shuffle;
  // What the result depends on, and nothing else: the number of threads is not told.
  converting.made_by = {
      {"tool", std::string("shardfeed ") + kVersion},
      {"command", "convert " + kind.name},
      {"source", fmt::format("{}", fmt::join(sources, " "))},
      {"shuffle",
       converting.shuffle_seed ? fmt::format("seed {}", *converting.shuffle_seed) : "no"},
  };
  if (converting.skip_defects) converting.made_by["on_error"] = "skip";
  converting.made_by.insert(flags.pictures.begin(), flags.pictures.end());
  if (flags.limit) converting.made_by["limit"] = fmt::format("{}", *flags.limit);

  std::unique_ptr<StandardInput> input;
  const auto report_error = [&input](const absl::Status& status) {
    if (input == nullptr) return ReportError(status);
    return ReportError(absl::Status(status.code(), input->WithName(std::string(status.message()))));
  };
  absl::StatusOr<std::vector<std::string>> paths =
      FindSources(kind, std::move(sources), spec->directory, options, input);
  if (!paths.ok()) return report_error(paths.status());
  if (input != nullptr) {
    converting.reword = [&input](std::string text) { return input->WithName(std::move(text)); };
  }
  absl::StatusOr<std::unique_ptr<Source>> source = make_source(*std::move(paths));
  if (!source.ok()) return report_error(source.status());
  ConvertProgress progress;
  absl::StatusOr<Manifest> manifest;
  {
    ProgressDisplay display(options, [&] {
      if (progress.records_to_write == 0) {
        return ProgressDisplay::State{
            .what = "scanning", .done = progress.bytes_scanned, .bytes = true};
      }
      return ProgressDisplay::State{
          .what = "writing", .done = progress.records, .total = progress.records_to_write};
    });
    manifest = Convert(**source, converting, &progress);
  }
  if (!manifest.ok()) return report_error(manifest.status());
  const double seconds = watch.Seconds();
  const std::string name =
      FormatSpec(spec->directory, spec->stem, manifest->shards.size(), spec->suffix);
  if (options.json) {
    const nlohmann::ordered_json json = {{"dataset", name},
                                         {"shards", manifest->shards.size()},
                                         {"records", manifest->num_records()},
                                         {"bytes", manifest->num_bytes()},
                                         {"notes", manifest->notes},
                                         {"skipped", manifest->skipped.count},
                                         {"seconds", seconds},
                                         {"peak_rss_bytes", PeakResidentBytes()}};
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!options.quiet) {
    for (const std::string& note : manifest->notes) fmt::print("note: {}\n", note);
    if (manifest->skipped.count > 0) {
      fmt::print(
          "note: {} broken records were left out; the manifest lists them, the first is {}\n",
          FormatCount(manifest->skipped.count), manifest->skipped.first.front());
    }
    if (manifest->num_records() < manifest->shards.size()) {
      fmt::print("note: there are more shards than records, so some are empty\n");
    }
    fmt::print("{}: {} records, {} in {} shards, {} ({} records/s, {}/s)\n", name,
               FormatCount(manifest->num_records()), FormatSize(manifest->num_bytes()),
               manifest->shards.size(), FormatDuration(seconds),
               FormatCount(static_cast<uint64_t>(static_cast<double>(manifest->num_records()) /
                                                 std::max(seconds, 1e-9))),
               FormatSize(static_cast<uint64_t>(static_cast<double>(manifest->num_bytes()) /
                                                std::max(seconds, 1e-9))));
  }
  return kExitDone;
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
  const std::map<std::string, Compression> compressions = {
      {"none", Compression::kNone}, {"gzip", Compression::kGzip}, {"zlib", Compression::kZlib}};
  command->add_option("--compression", flags->compression, "none (default), gzip or zlib")
      ->transform(CLI::CheckedTransformer(compressions))
      ->type_name("KIND")
      ->default_str("none");
  command->add_option("--level", flags->level, "of compression: 1 (fast) to 9 (small)")
      ->check(CLI::Range(1, 9))
      ->capture_default_str();
  command->add_option("--shard-size", flags->shard_size,
                      "about so much in a shard before compression; default 256MiB");
  command->add_option(
      "--member-size", flags->member_size,
      "what compressed data is cut into, and a reader can start at; default 256KiB");
  command
      ->add_option("--shuffle", flags->shuffle,
                   kind.default_shuffle ? "seed of the shuffle, which is on by default"
                                        : "shuffle, with this seed")
      ->check(WholeNumber(0));
  command->add_flag("--no-shuffle", flags->no_shuffle, "keep the order of the source");
  command->add_option("--limit", flags->limit, "write so many records at most")
      ->check(WholeNumber(0));
  command
      ->add_option("--on-error", flags->on_error,
                   "fail (default) or skip: what to do with a broken record")
      ->check(CLI::IsMember({"fail", "skip"}))
      ->type_name("WHAT")
      ->default_str("fail");
  command->add_flag("--overwrite", flags->overwrite, "replace a dataset of the same name");
  command->add_flag("--no-sync", flags->no_sync,
                    "do not wait until everything is on the disk: faster, and lost if the machine "
                    "stops soon after");
  AddCommonOptions(*command, options);
  command->footer(kind.details);
  const MakeSource make_source = kind.declare(*command);
  command->callback([kind, make_source, flags, command, &options, exit] {
    for (const char* name : {"jpeg", "resize-shorter", "quality"}) {
      const CLI::Option* option = command->get_option_no_throw(std::string("--") + name);
      if (option == nullptr) continue;
      const std::string value =
          option->count() > 0 ? option->results().front() : option->get_default_str();
      if (!value.empty()) flags->pictures[name] = value;
    }
    *exit = Convert(kind, make_source, *flags, options);
  });
}

}  // namespace

void AddConvertCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* convert = app.add_subcommand("convert", "Turn raw data into a sharded dataset");
  convert->require_subcommand(1);
  convert->footer(
      "Writes shards, an index for each and a manifest; they appear when all are complete.\n\n"
      "Examples:\n"
      "  shardfeed convert imagefolder photos/ out/train@64\n"
      "  shardfeed convert csv tables/*.csv out/table@4 --compression gzip\n");
  for (const ConvertKind& kind : ConvertKinds()) AddKind(*convert, kind, options, exit);
}

}  // namespace shardfeed
