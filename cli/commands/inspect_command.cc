#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>

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
  for (const auto& [name, feature] : schema.features())
    width = std::max(width, OneLine(name).size());
  fmt::print("  {:<{}}  {:<5}  {:<14}  {:<24}  {}\n", "feature", width, "kind", "values",
             "bytes per value", "records");
  for (const auto& [name, feature] : schema.features()) {
    if (!only.empty() && name != only) continue;
    const std::string bytes =
        feature.kind == FeatureKind::kBytes && feature.min_bytes <= feature.max_bytes
            ? SpanText(feature.min_bytes, feature.max_bytes)
            : "";
    fmt::print("  {:<{}}  {:<5}  {:<14}  {:<24}  {}\n", OneLine(name), width,
               FeatureKindName(feature.kind), ShapeText(feature), bytes,
               PresenceText(feature, schema));
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
               of_feature.size() == 1 ? "class" : "classes", OneLine(feature), shown,
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
    fmt::print("  {}: {}\n{}", OneLine(name), what, ShowImage(value, protocol));
  }).IgnoreError();
}

// What is shown of a dataset.
struct Inspected {
  ShardSet set;
  std::unique_ptr<RandomAccess> access;
  // From the indexes.
  uint64_t bytes = 0;
  Compression compression = Compression::kNone;
  Histogram histogram;
  LengthReport lengths;
  std::vector<std::string> of_format;  // notes on shards that are not TFRecord
  // From the manifest if there is one, otherwise from all records.
  bool has_manifest = false;
  Schema schema;
  std::map<std::string, std::string> made_by;
  FeatureClasses classes;
  std::shared_ptr<const TfdsFeatures> tfds;  // null: not a dataset of TFDS
  std::vector<std::string> notes;
  // Only if they were requested.
  std::optional<DatasetStatistics> statistics;
  bool stored_statistics = false;  // those of the manifest
};

absl::Status ReadIndexes(Inspected* found) {
  bool tar = false;
  std::vector<std::string>& notes = found->of_format;
  const auto add_notes = [&notes](const ShardIndex& index, std::string_view first) {
    if (!notes.empty()) return;
    notes = FormatNotes(index);
    notes.emplace(notes.begin(), first);
  };
  for (size_t i = 0; i < found->access->table().num_shards(); ++i) {
    absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = found->access->table().Index(i);
    if (!opened.ok()) return opened.status();
    const ShardIndex& index = **opened;
    found->bytes += index.summary().shard_bytes;
    found->compression = index.summary().compression;
    tar |= index.summary().framing == Framing::kTar;
    if (index.summary().framing == Framing::kMds) {
      add_notes(index,
                "MDS shards of MosaicML Streaming, read in place: a record is a sample, its "
                "features are the columns");
    }
    if (index.summary().framing == Framing::kArrayRecord) {
      add_notes(index, "ArrayRecord shards, read in place");
    }
    found->lengths.Add(index);
    uint64_t offset = 0;
    for (uint64_t record = 0; record < index.records(); ++record) {
      const uint64_t next = index.Offset(record + 1);
      found->histogram.Add(next - offset - kFrameBytes);
      offset = next;
    }
  }
  if (tar) {
    notes.emplace(notes.begin(),
                  "tar archives in WebDataset's layout, read in place: a record is a sample, its "
                  "features are __key__ and the endings of its files");
  }
  return absl::OkStatus();
}

// Reads the manifest, or what TFDS says of the dataset if there is none.
absl::Status ReadDescription(Inspected* found) {
  const ShardSet& set = found->set;
  if (set.sharded_name) {
    absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(set.directory, set.stem));
    if (manifest.ok() && Describes(*manifest, set) &&
        manifest->num_records() == found->access->num_records()) {
      found->schema = manifest->schema;
      found->made_by = manifest->made_by;
      found->notes = manifest->notes;
      found->classes = manifest->classes;
      found->has_manifest = true;
    } else if (!manifest.ok() && !absl::IsNotFound(manifest.status())) {
      return manifest.status();
    }
  }
  found->notes.insert(found->notes.end(), found->of_format.begin(), found->of_format.end());
  // The dataset may have been replaced between reading its indexes and reading its manifest.
  if (absl::Status same = set.version.CheckUnchanged(); !same.ok()) return same;
  if (found->has_manifest) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const TfdsFeatures>> tfds = FindTfdsFeatures(set);
  absl::Status status = tfds.status();
  if (tfds.ok()) found->tfds = *std::move(tfds);
  if (found->tfds != nullptr) {
    absl::StatusOr<FeatureClasses> named = ReadTfdsClasses(*found->tfds);
    status = named.status();
    if (named.ok()) found->classes = *std::move(named);
  }
  // What records hold can be shown nevertheless.
  if (!status.ok()) found->notes.emplace_back(status.message());
  return absl::OkStatus();
}

// Reads all records for their schema.
absl::StatusOr<Schema> ReadSchema(const Inspected& found, const InspectFlags& flags,
                                  const CommandOptions& options) {
  std::atomic<uint64_t> passed{0};
  std::vector<Schema> schemas(found.set.paths.size());
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
                      .total = found.bytes,
                      .bytes = true};
    });
    status = ScanDataset(found.set, scanning, [&](size_t shard, const RecordBlock& block) {
      for (const Record& record : block.records) {
        schemas[shard].AddRecord(record.payload).IgnoreError();
      }
      return absl::OkStatus();
    });
  }
  if (!status.ok()) return status;
  Schema schema;
  for (const Schema& part : schemas) schema.Merge(part);
  return schema;
}

absl::Status CheckHasFeature(const Schema& schema, const std::string& feature) {
  if (feature.empty() || schema.features().contains(feature)) return absl::OkStatus();
  std::vector<std::string> names;
  for (const auto& [name, unused] : schema.features()) names.push_back(name);
  return absl::InvalidArgumentError(
      fmt::format("no record has a feature named '{}'{}", feature, DidYouMean(feature, names)));
}

// Sets the schema of a dataset without a manifest, and the statistics if they are wanted.
absl::Status ReadContents(const InspectFlags& flags, bool with_statistics,
                          const CommandOptions& options, Inspected* found) {
  const auto read_statistics = [&]() -> absl::Status {
    absl::StatusOr<DatasetStatistics> read =
        ReadStatistics(found->set, flags.specs.front(), options);
    if (!read.ok()) return read.status();
    found->statistics = *std::move(read);
    return absl::OkStatus();
  };
  if (!found->has_manifest && with_statistics) {
    if (absl::Status read = read_statistics(); !read.ok()) return read;
    found->schema = found->statistics->schema();
  } else if (!found->has_manifest) {
    absl::StatusOr<Schema> read = ReadSchema(*found, flags, options);
    if (!read.ok()) return read.status();
    found->schema = *std::move(read);
  }
  if (found->tfds != nullptr) found->schema.SetTypes(TypesOf(*found->tfds));
  if (absl::Status has = CheckHasFeature(found->schema, flags.feature); !has.ok()) return has;
  if (!with_statistics || found->statistics) return absl::OkStatus();
  // The manifest's statistics are those of its schema.
  if (!flags.recompute) found->statistics = StoredStatistics(found->set);
  found->stored_statistics = found->statistics.has_value();
  return found->stored_statistics ? absl::OkStatus() : read_statistics();
}

absl::Status PrintJson(const Inspected& found, const InspectFlags& flags) {
  nlohmann::ordered_json json = {{"shards", found.set.paths.size()},
                                 {"records", found.access->num_records()},
                                 {"bytes", found.bytes},
                                 {"compression", CompressionName(found.compression)},
                                 {"not_examples", found.schema.not_examples()},
                                 {"features", found.schema.ToJson()}};
  const Histogram& histogram = found.histogram;
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
  if (!found.lengths.empty()) json["lengths"] = found.lengths.ToJson();
  if (!found.classes.empty()) json["classes"] = ClassesToJson(found.classes);
  if (found.tfds != nullptr) json["tfds"] = TfdsFeaturesToJson(*found.tfds);
  if (found.statistics) {
    json["statistics"] = StatisticsToJson(*found.statistics);
    json["statistics_from"] = found.stored_statistics ? "manifest" : "records";
    AddRepeatedRecords(*found.statistics, &json);
  } else {
    json["statistics_in_manifest"] = found.has_manifest && StoredStatistics(found.set).has_value();
  }
  if (found.has_manifest) json["made_by"] = found.made_by;
  if (!found.notes.empty()) json["notes"] = found.notes;
  nlohmann::ordered_json& samples = json["samples"] = nlohmann::ordered_json::array();
  const uint64_t shown = std::min(flags.records, found.access->num_records());
  absl::Status status = found.access->Read(0, shown, [&](uint64_t, std::string_view payload) {
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
  if (!status.ok()) return status;
  fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  return absl::OkStatus();
}

absl::Status PrintText(const Inspected& found, const InspectFlags& flags) {
  const Histogram& histogram = found.histogram;
  fmt::print("{}, {}, {}{}\n", Counted(found.set.paths.size(), "shard"),
             Counted(found.access->num_records(), "record"), FormatSize(found.bytes),
             found.compression == Compression::kNone
                 ? ""
                 : fmt::format(" of {}, {} inflated", CompressionName(found.compression),
                               FormatSize(histogram.sum + kFrameBytes * histogram.n)));
  for (const auto& [key, value] : found.made_by) fmt::print("{}: {}\n", key, value);
  PrintNotes(found.notes, "--json shows all");
  PrintSchema(found.schema, flags.feature);
  if (found.tfds != nullptr) PrintTfdsFeatures(*found.tfds, flags.feature);
  PrintClasses(found.classes, flags.feature);
  found.lengths.Print(fmt::format("{}", fmt::join(flags.specs, " ")), flags.feature);
  PrintHistogram(histogram);
  if (found.statistics) {
    fmt::print("statistics, {}:\n",
               found.stored_statistics ? "from the manifest" : "of all records now");
    PrintStatistics(*found.statistics, flags.feature);
  }
  const ImageProtocol protocol = ProtocolOf(flags.images);
  const uint64_t shown = std::min(flags.records, found.access->num_records());
  return found.access->Read(0, shown, [&](uint64_t number, std::string_view payload) {
    absl::StatusOr<std::string> text = ExampleToSummary(payload, flags.feature);
    fmt::print("record {} ({})\n{}", number, FormatSize(payload.size()),
               text.ok() ? *text : fmt::format("  {}\n", std::string(text.status().message())));
    PrintImages(payload, flags.feature, protocol);
    return absl::OkStatus();
  });
}

// InvalidArgument: `path`, which is to be written, is one of the shards.
absl::Status CheckIsNoShard(const std::string& path, const std::vector<std::string>& shards) {
  for (const std::string& shard : shards) {
    std::error_code error;
    if (!std::filesystem::equivalent(path, shard, error)) continue;
    return absl::InvalidArgumentError(
        fmt::format("--export: {} is a shard of the dataset; name another file", path));
  }
  return absl::OkStatus();
}

absl::Status Inspect(const InspectFlags& flags, const CommandOptions& options) {
  std::optional<StatisticsExport> exported;
  if (!flags.export_to.empty()) {
    absl::StatusOr<StatisticsExport> parsed = ParseStatisticsExport(flags.export_to);
    if (!parsed.ok()) return parsed.status();
    exported = *std::move(parsed);
    if (exported->path == "-" && (options.json || flags.statistics)) {
      return absl::InvalidArgumentError(
          "--export tfdv=- takes standard output for itself: leave out --json and --statistics, or "
          "write to a file");
    }
  }
  Inspected found;
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.specs);
  if (!set.ok()) return set.status();
  found.set = *std::move(set);
  if (exported) {
    if (absl::Status status = CheckIsNoShard(exported->path, found.set.paths); !status.ok()) {
      return status;
    }
  }
  absl::StatusOr<std::unique_ptr<RandomAccess>> access =
      RandomAccess::Open(found.set, options.threads);
  if (!access.ok()) return access.status();
  found.access = *std::move(access);
  if (absl::Status read = ReadIndexes(&found); !read.ok()) return read;
  if (absl::Status read = ReadDescription(&found); !read.ok()) return read;
  absl::Status status =
      ReadContents(flags, flags.statistics || exported.has_value(), options, &found);
  if (!status.ok()) return status;
  if (exported) {
    status = ExportStatistics(*exported, *found.statistics);
    if (!status.ok() || exported->path == "-") return status;
    if (!flags.statistics) found.statistics.reset();
  }
  return options.json ? PrintJson(found, flags) : PrintText(found, flags);
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
  command->callback([flags, &options, exit] {
    const absl::Status status = Inspect(*flags, options);
    *exit = status.ok() ? kExitDone : ReportError(status);
  });
}

}  // namespace shardfeed
