#include "cli/reports/convert_preview.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "cli/reports/convert_progress.h"
#include "cli/reports/dataset_report.h"
#include "cli/reports/schema_text.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "io/remedy.h"
#include "nlohmann/json.hpp"
#include "shard/names/names.h"
#include "shard/schema/schema.h"
#include "tfrecord/example_text.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// The number of records that are built for the schema and the estimates, and of those that are
// shown.
constexpr uint64_t kSampledRecords = 1000;
constexpr uint64_t kSampledBytes = 64 << 20;
constexpr size_t kShownRecords = 3;
constexpr size_t kValueColumns = 60;

struct Sample {
  Schema schema;
  std::map<std::string, std::string> first_values;  // first value of each feature
  std::vector<std::string> first;                   // the records that are shown
  uint64_t records = 0;
  uint64_t bytes = 0;
  double seconds = 0;
};

struct PlannedDataset {
  std::string name;
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t shards = 0;
};

struct Preview {
  Sample sample;
  std::vector<PlannedDataset> datasets;
  std::vector<std::string> notes;
  SkippedRecords skipped;
  absl::Status failure;  // the first error that the conversion would have
  double seconds = 0;    // estimate for the whole conversion
  int threads = 1;
};

// Builds the first records of the source. Broken ones are added to `skipped`.
absl::StatusOr<Sample> BuildFirst(const Source& source, const ConvertOptions& converting,
                                  uint64_t most, SkippedRecords& skipped) {
  Sample sample;
  ExampleBuilder builder;
  std::string record;
  uint64_t items = 0;
  absl::Status status = source.ForEach([&](const Item& item) -> absl::Status {
    if (converting.stop.stop_requested()) return absl::CancelledError("interrupted");
    // Only an error stops a source; this one is ignored below.
    if (items++ == most || sample.bytes >= kSampledBytes) return absl::OutOfRangeError("enough");
    record.clear();
    const Stopwatch watch;
    absl::Status built = source.BuildRecord(item, builder, &record);
    sample.seconds += watch.Seconds();
    if (absl::IsDataLoss(built) && converting.skip_defects) {
      skipped.Add(converting.Reworded(std::string(built.message())));
      return absl::OkStatus();
    }
    if (!built.ok()) return built;
    ++sample.records;
    sample.bytes += record.size();
    sample.schema.AddRecord(record).IgnoreError();  // the schema counts it as no Example
    if (sample.first.size() < kShownRecords) sample.first.push_back(record);
    if (sample.first_values.size() < sample.schema.features().size()) {
      absl::StatusOr<std::map<std::string, std::string>> values = ExampleToValues(record);
      if (values.ok()) sample.first_values.merge(*values);
    }
    return absl::OkStatus();
  });
  if (!status.ok() && !absl::IsOutOfRange(status)) return status;
  return sample;
}

// Returns the datasets with their estimated sizes.
std::vector<PlannedDataset> Estimate(const Source& source, const ConvertOptions& converting,
                                     const Sample& sample, const PreviewInput& input) {
  const uint64_t mean = source.mean_record_bytes() > 0
                            ? source.mean_record_bytes()
                            : sample.bytes / std::max<uint64_t>(1, sample.records);
  const uint64_t frame = mean + kFrameBytes;
  std::vector<PlannedDataset> datasets;
  const auto add = [&](const OutputSpec& spec, uint64_t records) {
    PlannedDataset dataset;
    dataset.shards = spec.count.value_or(ChosenShards(records, frame, converting));
    if (input.named) {
      dataset.name = FormatSpec(spec.directory, spec.stem, dataset.shards, spec.suffix);
    }
    dataset.records = records;
    dataset.bytes = records * frame;
    datasets.push_back(std::move(dataset));
  };
  const uint64_t total = source.num_records();
  const std::vector<Split> splits = SplitsOf(source, converting);
  if (splits.empty()) {
    add(converting.output, std::min(total, converting.limit.value_or(total)));
  }
  for (const Split& split : splits) {
    add(SplitOutput(converting.output, split),
        std::llround(static_cast<double>(total) * split.share));
  }
  return datasets;
}

void AddFailure(const absl::Status& status, Preview* preview) {
  if (status.ok()) return;
  preview->notes.push_back("the conversion would fail: " + DescribeError(status));
  if (preview->failure.ok()) preview->failure = status;
}

absl::Status CheckNameIsFree(const OutputSpec& spec) {
  const absl::Status status = DatasetWriter::CheckNameIsFree(spec);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;  // the folder is made
}

absl::StatusOr<Preview> MakePreview(Source& source, const ConvertOptions& converting,
                                    const PreviewInput& input, const CommandOptions& options) {
  if (absl::Status status = CheckConvertOptions(source, converting); !status.ok()) return status;
  Preview preview;
  preview.threads = ThreadCount(converting.threads);
  SkippedRecords& skipped = preview.skipped;
  if (converting.skip_defects) source.SkipDefects(converting.AddTo(skipped));
  const Stopwatch watch;
  ConvertProgress progress;
  {
    ProgressDisplay display(options, [&] { return PhaseOf(progress, input.bytes, input.name); });
    absl::Status status = source.Scan(
        converting.stop, [&progress](uint64_t bytes) { progress.bytes_scanned = bytes; });
    if (!status.ok()) return status;
  }
  const double scan_seconds = watch.Seconds();
  if (input.named && !converting.overwrite && !converting.resume) {
    std::vector<OutputSpec> outputs;
    for (const Split& split : SplitsOf(source, converting)) {
      outputs.push_back(SplitOutput(converting.output, split));
    }
    if (outputs.empty()) outputs.push_back(converting.output);
    for (const OutputSpec& output : outputs) {
      AddFailure(CheckNameIsFree(output), &preview);
    }
  }
  const uint64_t total = source.num_records();
  const uint64_t ceiling = converting.max_skipped.Of(total + skipped.count);
  if (skipped.count > ceiling) return TooManySkipped(skipped.count, ceiling, skipped.first[0]);
  for (std::string& note : source.notes()) preview.notes.push_back(std::move(note));
  const uint64_t wanted = std::min(total, converting.limit.value_or(total));
  absl::StatusOr<Sample> sample =
      BuildFirst(source, converting, std::min(wanted, kSampledRecords), skipped);
  if (!sample.ok()) return sample.status();
  preview.sample = *std::move(sample);
  preview.sample.schema.SetTypes(source.types());
  if (converting.like) {
    const bool whole = preview.sample.records + skipped.count >= wanted;
    AddFailure(CheckIsLike(preview.sample.schema, whole, input.name, *converting.like), &preview);
  }
  for (const std::string& note : source.built_notes()) {
    preview.notes.push_back(
        fmt::format("of the first {} records: {}", FormatCount(preview.sample.records), note));
  }
  if (converting.deduplicate) {
    preview.notes.push_back(
        "duplicates are not found without reading all of the input, so there "
        "may be fewer records");
  }
  if (converting.encode.compression != Compression::kNone) {
    preview.notes.push_back("sizes are those before compression");
  }
  if (input.named) {
    AddSuffixNote(converting.output.suffix, converting.encode.compression, &preview.notes);
  }
  for (std::string& note : preview.notes) note = converting.Reworded(std::move(note));
  preview.datasets = Estimate(source, converting, preview.sample, input);
  // The input is read again, by one thread, while all of them build records.
  const double build_seconds = preview.sample.seconds /
                               static_cast<double>(std::max<uint64_t>(1, preview.sample.records)) *
                               static_cast<double>(wanted) / preview.threads;
  preview.seconds = scan_seconds + std::max(scan_seconds, build_seconds);
  return preview;
}

void PrintJson(const Preview& preview) {
  nlohmann::ordered_json datasets = nlohmann::ordered_json::array();
  for (const PlannedDataset& dataset : preview.datasets) {
    nlohmann::ordered_json one = {
        {"shards", dataset.shards}, {"records", dataset.records}, {"bytes", dataset.bytes}};
    if (!dataset.name.empty()) one["dataset"] = dataset.name;
    datasets.push_back(std::move(one));
  }
  nlohmann::ordered_json features = nlohmann::ordered_json::object();
  const nlohmann::json schema = preview.sample.schema.ToJson();
  for (const auto& [name, feature] : schema.items()) {
    nlohmann::ordered_json one = feature;
    const auto first = preview.sample.first_values.find(name);
    if (first != preview.sample.first_values.end()) one["first"] = first->second;
    features[name] = std::move(one);
  }
  nlohmann::ordered_json samples = nlohmann::ordered_json::array();
  for (const std::string& record : preview.sample.first) {
    const absl::StatusOr<std::string> text = ExampleToJson(record);
    if (text.ok()) samples.push_back(nlohmann::ordered_json::parse(*text));
  }
  const nlohmann::ordered_json json = {{"dry_run", true},
                                       {"datasets", datasets},
                                       {"seconds", preview.seconds},
                                       {"threads", preview.threads},
                                       {"notes", preview.notes},
                                       {"skipped", preview.skipped.count},
                                       {"sampled", preview.sample.records},
                                       {"not_examples", preview.sample.schema.not_examples()},
                                       {"features", features},
                                       {"samples", samples}};
  fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void PrintFeatures(const Sample& sample) {
  size_t width = 7;
  for (const auto& [name, feature] : sample.schema.features()) {
    width = std::max(width, ColumnsOf(OneLine(name)));
  }
  const auto row = [width](const std::string& name, std::string_view kind, std::string_view values,
                           std::string_view records, std::string_view first) {
    const std::string padding(width - std::min(width, ColumnsOf(name)), ' ');
    fmt::print("  {}{}  {:<5}  {:<14}  {:<14}  {}\n", name, padding, kind, values, records, first);
  };
  row("feature", "kind", "values", "records", "first value");
  for (const auto& [name, feature] : sample.schema.features()) {
    const auto first = sample.first_values.find(name);
    row(OneLine(name), FeatureKindName(feature.kind), ShapeText(feature),
        PresenceText(feature, sample.schema),
        first == sample.first_values.end() ? "none" : CutEnd(first->second, kValueColumns));
  }
  if (sample.schema.not_examples() > 0) {
    fmt::print("  {} records are not tf.train.Examples\n",
               FormatCount(sample.schema.not_examples()));
  }
}

void PrintText(const Preview& preview) {
  for (const PlannedDataset& dataset : preview.datasets) {
    fmt::print("{}{}, about {} in {}\n", dataset.name.empty() ? "" : OneLine(dataset.name) + ": ",
               Counted(dataset.records, "record"), FormatSize(dataset.bytes),
               Counted(dataset.shards, "shard"));
  }
  fmt::print("converting takes {} on {}, if the disk keeps up\n",
             preview.seconds < 0.1 ? "less than 0.1 s" : "about " + FormatDuration(preview.seconds),
             Counted(preview.threads, "thread"));
  PrintNotes(preview.notes, "--json shows all");
  if (preview.skipped.count > 0) {
    PrintNote(fmt::format("{} broken record{} would be left out; the first is {}",
                          FormatCount(preview.skipped.count), preview.skipped.count == 1 ? "" : "s",
                          preview.skipped.first[0]));
  }
  const Sample& sample = preview.sample;
  fmt::print("features of the first {} records:\n", FormatCount(sample.records));
  PrintFeatures(sample);
  for (size_t i = 0; i < sample.first.size(); ++i) {
    const absl::StatusOr<std::string> text = ExampleToSummary(sample.first[i]);
    fmt::print("record {} ({})\n{}", i, FormatSize(sample.first[i].size()),
               text.ok() ? *text : fmt::format("  {}\n", std::string(text.status().message())));
  }
  fmt::print("nothing was written\n");
}

}  // namespace

int PreviewConversion(Source& source, const ConvertOptions& converting, const PreviewInput& input,
                      const CommandOptions& options) {
  const absl::StatusOr<Preview> preview = MakePreview(source, converting, input, options);
  if (!preview.ok()) {
    return ReportError(WithMessage(preview.status(),
                                   converting.Reworded(std::string(preview.status().message()))));
  }
  if (options.json) {
    PrintJson(*preview);
  } else if (!options.quiet) {
    PrintText(*preview);
  }
  if (!preview->failure.ok()) return ReportError(preview->failure);
  return preview->skipped.count > 0 ? kExitDefects : kExitDone;
}

}  // namespace shardfeed
