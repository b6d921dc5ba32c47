#include "cli/reports/statistics_report.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "net/open.h"
#include "reader/collect_statistics.h"
#include "shard/manifest/manifest.h"
#include "shard/statistics/statistics_json.h"

namespace shardfeed {
namespace {

constexpr size_t kShownFrequent = 5;

std::string Percent(uint64_t part, uint64_t whole) {
  return fmt::format("{:.3g} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string Number(double value) { return fmt::format("{:.6g}", value); }

std::string Different(const FeatureStatistics& feature) {
  bool exact;
  const uint64_t distinct = feature.Distinct(&exact);
  return fmt::format("{}{}", exact ? "" : "about ", Counted(distinct, "different value"));
}

std::string Extremes(const FeatureStatistics& feature) {
  if (feature.kind() == FeatureKind::kInt64) {
    return fmt::format("{} to {}", feature.min_int(), feature.max_int());
  }
  return fmt::format("{} to {}", Number(feature.min()), Number(feature.max()));
}

void PrintImages(const ImageStatistics& images) {
  if (images.count() == 0) return;
  std::string formats;
  for (size_t i = 0; i < images.formats().size(); ++i) {
    if (images.formats()[i] == 0) continue;
    formats += fmt::format("{}{} {}", formats.empty() ? "" : ", ", FormatCount(images.formats()[i]),
                           ImageStatistics::kFormats[i]);
  }
  const ImageStatistics::Sizes& widths = images.widths();
  const ImageStatistics::Sizes& heights = images.heights();
  const auto range = [](const ImageStatistics::Sizes& sizes) {
    return sizes.min == sizes.max ? fmt::format("{}", sizes.min)
                                  : fmt::format("{} to {}", sizes.min, sizes.max);
  };
  std::string sizes = fmt::format("{} pixels wide, {} high", range(widths), range(heights));
  if (widths.min != widths.max || heights.min != heights.max) {
    sizes += fmt::format(", median {} x {}", Number(widths.Quantile(0.5)),
                         Number(heights.Quantile(0.5)));
  }
  fmt::print("  images: {}; {}\n", formats, sizes);
}

void PrintFeature(const std::string& name, const FeatureSchema& schema, uint64_t records,
                  bool counts_values, const FeatureStatistics* feature) {
  std::string head = std::string(FeatureKindName(schema.kind));
  if (schema.records < records) {
    head += fmt::format(", missing in {} of {} records ({})", FormatCount(records - schema.records),
                        FormatCount(records), Percent(records - schema.records, records));
  }
  if (schema.mixed_kinds > 0) {
    head += fmt::format(", of another kind in {} records", FormatCount(schema.mixed_kinds));
  }
  fmt::print("{}: {}\n", OneLine(name), head);
  if (!counts_values) {
    fmt::print("  no statistics: only the first {} features by name have them\n",
               ValueStatistics::kMaxFeatures);
    return;
  }
  if (feature == nullptr || feature->values() == 0) {
    fmt::print("  no values\n");
    return;
  }
  std::string line;
  if (feature->has_numbers()) {
    line = fmt::format("{}, mean {}, deviation {}, ", Extremes(*feature), Number(feature->mean()),
                       Number(feature->deviation()));
  } else if (feature->kind() == FeatureKind::kBytes) {
    line = schema.min_bytes == schema.max_bytes
               ? Counted(schema.min_bytes, "byte") + ", "
               : fmt::format("{} to {} bytes, mean {}, ", FormatCount(schema.min_bytes),
                             FormatCount(schema.max_bytes),
                             Number(static_cast<double>(feature->total_bytes()) /
                                    static_cast<double>(feature->values())));
  }
  fmt::print("  {}{}\n", line, Different(*feature));
  PrintImages(feature->images());
  if (schema.min_values != schema.max_values) {
    const NumberHistogram lengths = feature->lengths();
    fmt::print("  {} to {} values in a record, mean {}, median {}\n",
               FormatCount(schema.min_values), FormatCount(schema.max_values),
               Number(lengths.Mean()), Number(lengths.Quantile(0.5)));
  }
  std::string odd;
  const auto note = [&](uint64_t count, std::string_view what) {
    if (count == 0) return;
    odd += fmt::format("{}{}: {} ({})", odd.empty() ? "" : ", ", what, FormatCount(count),
                       Percent(count, feature->values()));
  };
  note(feature->zeros(), "zeros");
  note(feature->nan(), "NaN");
  note(feature->infinite(), "infinite");
  if (!odd.empty()) fmt::print("  {}\n", odd);
  if (feature->has_numbers()) {
    std::string quantiles;
    for (double share : kToldShares) {
      quantiles += fmt::format("{}{} at {:g} %", quantiles.empty() ? "" : ", ",
                               Number(feature->Quantile(share)), 100 * share);
    }
    fmt::print("  quantiles: {}\n", quantiles);
  }
  std::string frequent;
  for (const FrequentValues::Entry& entry : feature->frequent().Top(kShownFrequent)) {
    const std::string text = FrequentText(*feature, entry);
    if (entry.count < 2 || text.empty()) break;
    frequent += fmt::format("{}{} ({})", frequent.empty() ? "" : ", ", text,
                            Percent(entry.count, feature->values()));
  }
  if (!frequent.empty()) fmt::print("  most frequent: {}\n", frequent);
}

const FeatureStatistics* Find(const DatasetStatistics& statistics, const std::string& name) {
  const auto it = statistics.features().find(name);
  return it == statistics.features().end() ? nullptr : &it->second;
}

}  // namespace

std::optional<DatasetStatistics> StoredStatistics(const ShardSet& set) {
  const std::shared_ptr<const Manifest> manifest = FindManifest(set);
  if (manifest == nullptr || manifest->values == nullptr) return std::nullopt;
  if (!IsRemote(set.directory)) {
    for (size_t i = 0; i < set.paths.size(); ++i) {
      if (SizeOfFiles({set.paths[i]}) != manifest->shards[i].bytes) return std::nullopt;
    }
  }
  return DatasetStatistics(manifest->schema, *manifest->values);
}

absl::StatusOr<DatasetStatistics> ReadStatistics(const ShardSet& set, const std::string& name,
                                                 const CommandOptions& options) {
  std::atomic<uint64_t> passed{0};
  const uint64_t total = SizeOfFiles(set.paths);
  ScanOptions scanning;
  scanning.threads = options.threads;
  scanning.stop = InterruptToken();
  scanning.bytes_passed = &passed;
  ProgressDisplay display(options, [&] {
    return Progress{.what = "reading", .name = name, .done = passed, .total = total, .bytes = true};
  });
  return CollectStatistics(set, scanning);
}

std::string FrequentText(const FeatureStatistics& feature, const FrequentValues::Entry& entry) {
  if (feature.kind() != FeatureKind::kBytes) return feature.TextOf(entry);
  if (!IsShown(feature, entry)) return "";
  return "'" + OneLine(entry.text) + "'";
}

std::string InShort(const FeatureStatistics& feature) {
  if (feature.values() == 0) return "no values";
  if (feature.kind() == FeatureKind::kBytes) return Different(feature);
  if (!feature.has_numbers()) return "no finite values";
  return fmt::format("mean {}, deviation {}", Number(feature.mean()), Number(feature.deviation()));
}

void AddRepeatedRecords(const DatasetStatistics& statistics, nlohmann::ordered_json* json) {
  bool exact;
  const std::optional<uint64_t> repeated = statistics.values().equal_records().repeated(&exact);
  if (!repeated) return;
  (*json)["repeated_records"] = *repeated;
  (*json)["repeated_records_is_exact"] = exact;
}

void PrintStatistics(const DatasetStatistics& statistics, const std::string& only) {
  bool exact;
  const std::optional<uint64_t> repeated = statistics.values().equal_records().repeated(&exact);
  if (only.empty() && repeated.value_or(0) > 0) {
    fmt::print("  {}{} an earlier one ({})\n", exact ? "" : "about ",
               *repeated == 1 ? "1 record equals" : FormatCount(*repeated) + " records equal",
               Percent(*repeated, statistics.schema().records()));
  }
  for (const auto& [name, schema] : statistics.schema().features()) {
    if (!only.empty() && name != only) continue;
    PrintFeature(name, schema, statistics.num_examples(), statistics.CountsValuesOf(name),
                 Find(statistics, name));
  }
}

nlohmann::ordered_json StatisticsToJson(const DatasetStatistics& statistics) {
  return StatisticsToJson(statistics.schema(), statistics.values());
}

}  // namespace shardfeed
