#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/units.h"
#include "convert/converter.h"
#include "convert/csv.h"
#include "convert/imagefolder.h"
#include "convert/jsonl.h"
#include "convert/text_lines.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

using MakeSource =
    std::function<absl::StatusOr<std::unique_ptr<Source>>(std::vector<std::string> paths)>;

constexpr char kJpegOption[] = "--jpeg";

struct ConvertFlags {
  std::vector<std::string> paths;  // sources, then the output
  Compression compression = Compression::kNone;
  int level = 6;
  std::string shard_size;
  std::string member_size;
  std::optional<uint64_t> shuffle;
  bool no_shuffle = false;
  std::optional<uint64_t> limit;
  std::optional<std::string> jpeg;  // of kinds that have pictures
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

int Convert(const std::string& kind, const MakeSource& make_source, const ConvertFlags& flags,
            const CommandOptions& options) {
  const Stopwatch watch;
  std::vector<std::string> sources = flags.paths;
  const std::string output = sources.back();
  sources.pop_back();
  if (sources.empty()) {
    return ReportError(absl::InvalidArgumentError(
        fmt::format("only one path is given; wanted: shardfeed convert {} SOURCE... OUT@N", kind)));
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
  converting.overwrite = flags.overwrite;
  converting.sync = !flags.no_sync;
  converting.stop = InterruptToken();
  if (!flags.no_shuffle) converting.shuffle_seed = flags.shuffle;
  // What the result depends on, and nothing else: the number of threads is not told.
  converting.made_by = {
      {"tool", std::string("shardfeed ") + kVersion},
      {"command", "convert " + kind},
      {"source", fmt::format("{}", fmt::join(sources, " "))},
      {"shuffle",
       converting.shuffle_seed ? fmt::format("seed {}", *converting.shuffle_seed) : "no"},
  };
  if (flags.jpeg) converting.made_by["jpeg"] = *flags.jpeg;
  if (flags.limit) converting.made_by["limit"] = fmt::format("{}", *flags.limit);

  absl::StatusOr<std::unique_ptr<Source>> source = make_source(sources);
  if (!source.ok()) return ReportError(source.status());
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
  if (!manifest.ok()) return ReportError(manifest.status());
  const double seconds = watch.Seconds();
  const std::string name =
      FormatSpec(spec->directory, spec->stem, manifest->shards.size(), spec->suffix);
  if (options.json) {
    const nlohmann::ordered_json json = {{"dataset", name},
                                         {"shards", manifest->shards.size()},
                                         {"records", manifest->num_records()},
                                         {"bytes", manifest->num_bytes()},
                                         {"notes", manifest->notes},
                                         {"seconds", seconds},
                                         {"peak_rss_bytes", PeakResidentBytes()}};
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!options.quiet) {
    for (const std::string& note : manifest->notes) fmt::print("note: {}\n", note);
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

void AddKind(CLI::App& convert, const std::string& kind, const std::string& help,
             const std::string& details, std::optional<uint64_t> default_shuffle,
             std::function<MakeSource(CLI::App&)> declare, CommandOptions& options, int* exit) {
  CLI::App* command = convert.add_subcommand(kind, help);
  auto flags = std::make_shared<ConvertFlags>();
  flags->shuffle = default_shuffle;
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
                   default_shuffle ? "seed of the shuffle, which is on by default"
                                   : "shuffle, with this seed")
      ->check(WholeNumber(0));
  command->add_flag("--no-shuffle", flags->no_shuffle, "keep the order of the source");
  command->add_option("--limit", flags->limit, "write so many records at most")
      ->check(WholeNumber(0));
  command->add_flag("--overwrite", flags->overwrite, "replace a dataset of the same name");
  command->add_flag("--no-sync", flags->no_sync,
                    "do not wait until everything is on the disk: faster, and lost if the machine "
                    "stops soon after");
  AddCommonOptions(*command, options);
  command->footer(details);
  const MakeSource make_source = declare(*command);
  const CLI::Option* jpeg = command->get_option_no_throw(kJpegOption);
  command->callback([kind, make_source, flags, jpeg, &options, exit] {
    if (jpeg != nullptr) flags->jpeg = jpeg->as<std::string>();
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
  AddKind(
      *convert, "imagefolder", "A folder of class folders of pictures",
      "Each folder in SOURCE is a class; labels count the classes in the order of their names.\n"
      "Features: image/encoded, image/format, image/height, image/width, image/class/label,\n"
      "image/class/text, image/filename. Shuffled by default, since folders come sorted by class.\n"
      "JPEGs are rewritten losslessly (same pixels, same Exif and profile) to be seekable; what\n"
      "cannot be is kept and counted, and damaged pictures are named.\n"
      "\nExample:\n"
      "  shardfeed convert imagefolder photos/ out/train@64 --shuffle 7\n",
      0,
      [](CLI::App& command) {
        auto jpeg = std::make_shared<std::string>("seekable");
        command
            .add_option(kJpegOption, *jpeg,
                        "seekable: JPEGs are rewritten losslessly, so that crops of them decode "
                        "faster; keep: the bytes of the files")
            ->check(CLI::IsMember({"seekable", "keep"}))
            ->type_name("KIND")
            ->capture_default_str();
        return [jpeg](std::vector<std::string> paths) {
          return MakeImageFolderSource(
              std::move(paths), {.jpeg = *jpeg == "keep" ? JpegMode::kKeep : JpegMode::kSeekable});
        };
      },
      options, exit);
  AddKind(
      *convert, "csv", "Tables of comma-separated values",
      "The first row names the features. A column whose cells are all integers becomes int64, one\n"
      "of numbers float (32 bits, as TFRecord has them), any other bytes. Empty cells are "
      "missing.\n"
      "\nExample:\n"
      "  shardfeed convert csv flights.csv out/flights@4 --shuffle 1\n",
      std::nullopt,
      [](CLI::App&) {
        return [](std::vector<std::string> paths) { return MakeCsvSource(std::move(paths)); };
      },
      options, exit);
  AddKind(
      *convert, "jsonl", "JSON lines: one object per line",
      "Numbers, strings, booleans and flat lists become features; nested objects give dotted\n"
      "names; null is missing.\n"
      "\nExample:\n"
      "  shardfeed convert jsonl events.jsonl out/events@8 --compression gzip\n",
      std::nullopt, [](CLI::App&) { return MakeSource(MakeJsonlSource); }, options, exit);
  AddKind(
      *convert, "text", "One record per line of text",
      "The only feature is \"text\".\n"
      "\nExample:\n"
      "  shardfeed convert text corpus.txt out/corpus@16\n",
      std::nullopt, [](CLI::App&) { return MakeSource(MakeTextLinesSource); }, options, exit);
}

}  // namespace shardfeed
