#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "base/suggestion.h"
#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/reports/length_report.h"
#include "cli/reports/schema_text.h"
#include "cli/reports/statistics_export.h"
#include "cli/reports/statistics_report.h"
#include "cli/reports/tfds_report.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal_image.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "reader/scan.h"
#include "reader/shards/shard_table.h"
#include "shard/declarations/tfds_features.h"
#include "shard/manifest/manifest.h"
#include "shard/schema/class_names.h"
#include "shard/spec/spec.h"
#include "shardfeed/index.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/example_text.h"

namespace shardfeed {
namespace {

struct InspectFlags {
  std::vector<std::string> specs;
  uint64_t records = 2;
  std::string feature;
  bool statistics = false;
  std::string export_to;
  bool recompute = false;
  std::string images = "auto";
};

// Histogram of payload sizes by powers of two.
struct Histogram {
  std::array<uint64_t, 65> counts = {};
  uint64_t min = UINT64_MAX;
  uint64_t max = 0;
  uint64_t sum = 0;
  uint64_t n = 0;

  void Add(uint64_t size) {
    ++counts[std::bit_width(size)];
    min = std::min(min, size);
    max = std::max(max, size);
    sum += size;
    ++n;
  }
};

void PrintSchema(const Schema& schema, const std::string& only) {
  size_t width = 7;
  for (const auto& [name, feature] : schema.features()) width = std::max(width, name.size());
  fmt::print("  {:<{}}  {:<5}  {:<14}  {:<24}  {}\n", "feature", width, "kind", "values",
             "bytes per value", "records");
  for (const auto& [name, feature] : schema.features()) {
    if (!only.empty() && name != only) continue;
    const std::string bytes =
        feature.kind == FeatureKind::kBytes && feature.min_bytes <= feature.max_bytes
            ? SpanText(feature.min_bytes, feature.max_bytes)
            : "";
    fmt::print("  {:<{}}  {:<5}  {:<14}  {:<24}  {}\n", name, width, FeatureKindName(feature.kind),
               ShapeText(feature), bytes, PresenceText(feature, schema));
  }
  if (schema.not_examples() > 0) {
    fmt::print("  {} records are not tf.train.Examples\n", FormatCount(schema.not_examples()));
  }
}

// Prints the numbers and names of the first classes of each feature.
void PrintClasses(const FeatureClasses& classes, const std::string& only) {
  constexpr size_t kShown = 5;
  for (const auto& [feature, of_feature] : classes) {
    if (!only.empty() && feature != only) continue;
    std::string shown;
    size_t number_shown = 0;
    for (const auto& [number, name] : of_feature) {
      if (number_shown++ == kShown) break;
      shown += fmt::format("{}{} {}", shown.empty() ? "" : ", ", number, QuotedName(name));
    }
    fmt::print("{} {} of {}: {}{}\n", FormatCount(of_feature.size()),
               of_feature.size() == 1 ? "class" : "classes", feature, shown,
               of_feature.size() > kShown ? ", ..." : "");
  }
}

void PrintHistogram(const Histogram& histogram) {
  if (histogram.n == 0) return;
  fmt::print("record size: {} to {}, mean {}\n", FormatSize(histogram.min),
             FormatSize(histogram.max), FormatSize(histogram.sum / histogram.n));
  const uint64_t most = *std::max_element(histogram.counts.begin(), histogram.counts.end());
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    const std::string below = i >= 64 ? "2^64" : FormatSize(uint64_t{1} << i);
    fmt::print("  below {:>8}  {:<40}  {}\n", below,
               std::string(std::max<uint64_t>(1, histogram.counts[i] * 40 / most), '#'),
               FormatCount(histogram.counts[i]));
  }
}

ImageProtocol ProtocolOf(const std::string& flag) {
  if (flag == "kitty") return ImageProtocol::kKitty;
  if (flag == "iterm") return ImageProtocol::kIterm;
  if (flag == "sixel") return ImageProtocol::kSixel;
  if (flag == "off" || ::isatty(STDOUT_FILENO) == 0) return ImageProtocol::kOff;
  return DetectImageProtocol([](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  });
}

// Shows the images of a record, or their formats and sizes if the terminal cannot show images.
void PrintImages(std::string_view record, const std::string& only, ImageProtocol protocol) {
  VisitBytes(record, [&](std::string_view name, std::string_view value) {
    if (!only.empty() && name != only) return;
    const std::string what = DescribeImage(value);
    if (what.empty()) return;
    fmt::print("  {}: {}\n{}", name, what, ShowImage(value, protocol));
  }).IgnoreError();
}

int Inspect(const InspectFlags& flags, const CommandOptions& options) {
  std::optional<StatisticsExport> exported;
  if (!flags.export_to.empty()) {
    absl::StatusOr<StatisticsExport> parsed = ParseStatisticsExport(flags.export_to);
    if (!parsed.ok()) return ReportError(parsed.status());
    exported = *std::move(parsed);
    if (exported->path == "-" && (options.json || flags.statistics)) {
      return ReportError(absl::InvalidArgumentError(
          "--export tfdv=- takes standard output for itself: leave out --json and --statistics, or "
          "write to a file"));
    }
  }
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.specs);
  if (!set.ok()) return ReportError(set.status());
  absl::StatusOr<std::unique_ptr<RandomAccess>> access = RandomAccess::Open(*set, options.threads);
  if (!access.ok()) return ReportError(access.status());
  Histogram histogram;
  uint64_t bytes = 0;
  Compression compression = Compression::kNone;
  bool tar = false;
  std::vector<std::string> of_format;  // notes on MDS or ArrayRecord shards
  LengthReport lengths;
  for (size_t i = 0; i < (*access)->table().num_shards(); ++i) {
    absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = (*access)->table().Index(i);
    if (!opened.ok()) return ReportError(opened.status());
    const ShardIndex& index = **opened;
    bytes += index.summary().shard_bytes;
    compression = index.summary().compression;
    tar |= index.summary().framing == Framing::kTar;
    if (of_format.empty() && index.summary().framing == Framing::kMds) {
      of_format = FormatNotes(index);
      of_format.insert(of_format.begin(),
                       "MDS shards of MosaicML Streaming, read in place: a record is a sample, its "
                       "features are the columns");
    }
    if (of_format.empty() && index.summary().framing == Framing::kArrayRecord) {
      of_format = FormatNotes(index);
      of_format.insert(of_format.begin(), "ArrayRecord shards, read in place");
    }
    lengths.Add(index);
    uint64_t offset = 0;
    for (uint64_t record = 0; record < index.records(); ++record) {
      const uint64_t next = index.Offset(record + 1);
      histogram.Add(next - offset - kFrameBytes);
      offset = next;
    }
  }

  // The schema comes from the manifest; without a manifest, every record is read.
  Schema schema;
  std::map<std::string, std::string> made_by;
  std::vector<std::string> notes;
  FeatureClasses classes;
  bool has_manifest = false;
  if (set->sharded_name) {
    absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(set->directory, set->stem));
    if (manifest.ok() && Describes(*manifest, *set) &&
        manifest->num_records() == (*access)->num_records()) {
      schema = manifest->schema;
      made_by = manifest->made_by;
      notes = manifest->notes;
      classes = manifest->classes;
      has_manifest = true;
    } else if (!manifest.ok() && !absl::IsNotFound(manifest.status())) {
      return ReportError(manifest.status());
    }
  }
  if (tar) {
    notes.emplace_back(
        "tar archives in WebDataset's layout, read in place: a record is a sample, its features "
        "are __key__ and the endings of its files");
  }
  notes.insert(notes.end(), of_format.begin(), of_format.end());
  // The dataset may have been replaced between reading its indexes and reading its manifest.
  if (absl::Status same = set->version.CheckUnchanged(); !same.ok()) return ReportError(same);
  std::optional<DatasetStatistics> statistics;
  std::shared_ptr<const TfdsFeatures> tfds;
  if (!has_manifest) {
    absl::StatusOr<std::shared_ptr<const TfdsFeatures>> found = FindTfdsFeatures(*set);
    absl::Status status = found.status();
    if (found.ok()) tfds = *std::move(found);
    if (tfds != nullptr) {
      absl::StatusOr<FeatureClasses> named = ReadTfdsClasses(*tfds);
      status = named.status();
      if (named.ok()) classes = *std::move(named);
    }
    // What records hold can be shown nevertheless.
    if (!status.ok()) notes.emplace_back(status.message());
  }
  const bool with_statistics = flags.statistics || exported.has_value();
  const auto read_statistics = [&]() -> absl::Status {
    absl::StatusOr<DatasetStatistics> read = ReadStatistics(*set, flags.specs.front(), options);
    if (!read.ok()) return read.status();
    statistics = *std::move(read);
    return absl::OkStatus();
  };
  if (!has_manifest && with_statistics) {
    if (absl::Status read = read_statistics(); !read.ok()) return ReportError(read);
    schema = statistics->schema();
  } else if (!has_manifest) {
    std::atomic<uint64_t> passed{0};
    std::vector<Schema> schemas(set->paths.size());
    ScanOptions scanning;
    scanning.threads = options.threads;
    scanning.stop = InterruptToken();
    scanning.bytes_passed = &passed;
    absl::Status status;
    {
      ProgressDisplay display(options, [&] {
        return Progress{.what = "inspecting",
                        .name = fmt::format("{}", fmt::join(flags.specs, " ")),
                        .done = passed,
                        .total = bytes,
                        .bytes = true};
      });
      status = ScanDataset(*set, scanning, [&](size_t shard, const RecordBlock& block) {
        for (const Record& record : block.records) {
          schemas[shard].AddRecord(record.payload).IgnoreError();
        }
        return absl::OkStatus();
      });
    }
    if (!status.ok()) return ReportError(status);
    for (const Schema& part : schemas) schema.Merge(part);
  }
  if (tfds != nullptr) schema.SetTypes(TypesOf(*tfds));
  if (!flags.feature.empty() && !schema.features().contains(flags.feature)) {
    std::vector<std::string> names;
    for (const auto& [name, feature] : schema.features()) names.push_back(name);
    return ReportError(absl::InvalidArgumentError(fmt::format(
        "no record has a feature named '{}'{}", flags.feature, DidYouMean(flags.feature, names))));
  }

  // The manifest's statistics are those of its schema.
  const bool are_stored = with_statistics && !statistics && has_manifest && !flags.recompute;
  if (are_stored) statistics = StoredStatistics(*set);
  const bool from_manifest = are_stored && statistics.has_value();
  if (with_statistics && !statistics) {
    if (absl::Status read = read_statistics(); !read.ok()) return ReportError(read);
  }
  if (exported) {
    if (absl::Status written = ExportStatistics(*exported, *statistics); !written.ok()) {
      return ReportError(written);
    }
    if (exported->path == "-") return kExitDone;
    if (!flags.statistics) statistics.reset();
  }

  const uint64_t shown = std::min(flags.records, (*access)->num_records());
  if (options.json) {
    nlohmann::ordered_json json = {{"shards", set->paths.size()},
                                   {"records", (*access)->num_records()},
                                   {"bytes", bytes},
                                   {"compression", CompressionName(compression)},
                                   {"not_examples", schema.not_examples()},
                                   {"features", schema.ToJson()}};
    if (histogram.n > 0) {
      nlohmann::ordered_json counts = nlohmann::ordered_json::array();
      for (size_t i = 0; i < histogram.counts.size(); ++i) {
        if (histogram.counts[i] == 0) continue;
        counts.push_back(
            {{"at_least", i == 0 ? 0 : uint64_t{1} << (i - 1)}, {"records", histogram.counts[i]}});
      }
      json["record_bytes"] = {{"min", histogram.min},
                              {"max", histogram.max},
                              {"sum", histogram.sum},
                              {"histogram", counts}};
    }
    if (!lengths.empty()) json["lengths"] = lengths.ToJson();
    if (!classes.empty()) json["classes"] = ClassesToJson(classes);
    if (tfds != nullptr) json["tfds"] = TfdsFeaturesToJson(*tfds);
    if (statistics) {
      json["statistics"] = StatisticsToJson(*statistics);
      json["statistics_from"] = from_manifest ? "manifest" : "records";
      AddRepeatedRecords(*statistics, &json);
    } else {
      json["statistics_in_manifest"] = has_manifest && StoredStatistics(*set).has_value();
    }
    if (has_manifest) json["made_by"] = made_by;
    if (!notes.empty()) json["notes"] = notes;
    nlohmann::ordered_json& samples = json["samples"] = nlohmann::ordered_json::array();
    absl::Status status = (*access)->Read(0, shown, [&](uint64_t, std::string_view payload) {
      absl::StatusOr<std::string> text = ExampleToJson(payload);
      if (!text.ok()) return absl::OkStatus();
      // Parsed by name, because ordered_json looks at all names for each new one.
      nlohmann::ordered_json sample = nlohmann::json::parse(*text);
      if (!flags.feature.empty()) {
        sample = {{flags.feature, sample.value(flags.feature, nlohmann::ordered_json())}};
      }
      samples.push_back(std::move(sample));
      return absl::OkStatus();
    });
    if (!status.ok()) return ReportError(status);
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitDone;
  }

  fmt::print("{}, {}, {}{}\n", Counted(set->paths.size(), "shard"),
             Counted((*access)->num_records(), "record"), FormatSize(bytes),
             compression == Compression::kNone
                 ? ""
                 : fmt::format(" of {}, {} inflated", CompressionName(compression),
                               FormatSize(histogram.sum + kFrameBytes * histogram.n)));
  for (const auto& [key, value] : made_by) fmt::print("{}: {}\n", key, value);
  PrintNotes(notes, "--json shows all");
  PrintSchema(schema, flags.feature);
  if (tfds != nullptr) PrintTfdsFeatures(*tfds, flags.feature);
  PrintClasses(classes, flags.feature);
  lengths.Print(fmt::format("{}", fmt::join(flags.specs, " ")), flags.feature);
  PrintHistogram(histogram);
  if (statistics) {
    fmt::print("statistics, {}:\n",
               from_manifest ? "as they were when the dataset was written" : "of all records now");
    PrintStatistics(*statistics, flags.feature);
  }
  const ImageProtocol protocol = ProtocolOf(flags.images);
  absl::Status status = (*access)->Read(0, shown, [&](uint64_t number, std::string_view payload) {
    absl::StatusOr<std::string> text = ExampleToSummary(payload, flags.feature);
    fmt::print("record {} ({})\n{}", number, FormatSize(payload.size()),
               text.ok() ? *text : fmt::format("  {}\n", std::string(text.status().message())));
    PrintImages(payload, flags.feature, protocol);
    return absl::OkStatus();
  });
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show schema, counts, record sizes and sample records");
  auto flags = std::make_shared<InspectFlags>();
  command
      ->add_option("DATASET", flags->specs,
                   "stem@N, stem@*, a folder, a glob, files, or URLs of these")
      ->required();
  command->add_option("--records", flags->records, "how many sample records to show")
      ->check(WholeNumber(0))
      ->capture_default_str();
  command->add_flag("--statistics", flags->statistics,
                    "show the distribution of each feature's values: from the manifest, or else "
                    "read all records");
  command
      ->add_option(
          "--export", flags->export_to,
          "write statistics for TensorFlow Data Validation: tfdv=FILE is a file for "
          "tfdv.load_statistics, or for load_stats_binary if its name ends with .pb; tfdv=- writes "
          "to standard output, and nothing else")
      ->type_name("tfdv=FILE");
  command->add_flag("--recompute", flags->recompute,
                    "with --statistics and --export: read all records, whatever the manifest has");
  command->add_option("--feature", flags->feature, "show this feature only");
  command
      ->add_option("--images", flags->images,
                   "how the terminal shows images: auto, kitty, iterm, sixel, or off; other "
                   "terminals show format and size")
      ->check(CLI::IsMember({"auto", "kitty", "iterm", "sixel", "off"}))
      ->type_name("HOW")
      ->capture_default_str();
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Schema and statistics come from the manifest, as long as the shards have the sizes that it\n"
      "lists; without one, all records are read.\n\n"
      "Examples:\n"
      "  shardfeed inspect out/train@64\n"
      "  shardfeed inspect out/train@64 --statistics --records 0\n"
      "  shardfeed inspect out/train@64 --export tfdv=stats.tfrecord\n"
      "  shardfeed inspect photos/train@64 --records 10 --feature image/encoded\n"
      "  shardfeed inspect 'data/train-{00000..00146}.tar'\n"
      "  shardfeed inspect data/mds\n"
      "  shardfeed inspect 'data/train.array_record*'\n"
      "  shardfeed inspect 'old/train-*' --records 5 --feature image/class/text\n");
  command->callback([flags, &options, exit] { *exit = Inspect(*flags, options); });
}

}  // namespace shardfeed
