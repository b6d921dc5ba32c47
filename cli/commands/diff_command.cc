#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/reports/statistics_report.h"
#include "cli/terminal/color.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "shard/manifest/manifest.h"
#include "shard/names/file_names.h"
#include "shard/schema/class_names.h"
#include "shard/spec/spec.h"
#include "shard/statistics/dataset_statistics.h"

namespace shardfeed {
namespace {

struct DiffFlags {
  std::string first;
  std::string second;
  double max_drift = 0.1;
  bool recompute = false;
};

// What a drift is about, for people: "distribution", "frequency of 'x'".
std::string MeasureOf(const Drift& drift) {
  if (drift.value.empty()) return std::string(drift.measure);
  return fmt::format("{} of {}", drift.measure, OneLine(drift.value));
}

std::string SideOf(const DatasetStatistics& statistics, const Drift& drift) {
  if (drift.measure == "missing") {
    const FeatureSchema& feature = statistics.schema().features().find(drift.feature)->second;
    const uint64_t records = statistics.num_examples();
    return fmt::format("missing in {} of {}", FormatCount(records - feature.records),
                       FormatCount(records));
  }
  const auto it = statistics.features().find(drift.feature);
  if (it == statistics.features().end()) return "no values";
  const FeatureStatistics& feature = it->second;
  if (drift.measure == "NaN" || drift.measure == "infinite") {
    return fmt::format("{} of {} values",
                       FormatCount(drift.measure == "NaN" ? feature.nan() : feature.infinite()),
                       FormatCount(feature.values()));
  }
  if (drift.measure == "length") {
    return fmt::format("{:.6g} values in a record", feature.lengths().Mean());
  }
  return InShort(feature);
}

int Diff(const DiffFlags& flags, const CommandOptions& options) {
  absl::StatusOr<DatasetStatistics> sides[2];
  bool from_manifest[2];
  FeatureClasses classes[2];
  const std::string* specs[2] = {&flags.first, &flags.second};
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<ShardSet> set = ResolveSpecs({*specs[i]});
    if (!set.ok()) return ReportError(set.status());
    std::optional<DatasetStatistics> stored;
    if (!flags.recompute) stored = StoredStatistics(*set);
    from_manifest[i] = stored.has_value();
    if (const auto manifest = FindManifest(*set)) classes[i] = manifest->classes;
    if (stored) {
      sides[i] = *std::move(stored);
      // The manifest may be that of a dataset that has taken the place of the shards.
      if (absl::Status same = set->version.CheckUnchanged(); !same.ok()) return ReportError(same);
    } else {
      sides[i] = ReadStatistics(*set, *specs[i], options);
    }
    if (!sides[i].ok()) return ReportError(sides[i].status());
  }
  const DatasetStatistics& first = *sides[0];
  const DatasetStatistics& second = *sides[1];
  DatasetDifference difference = Compare(first, second, flags.first, flags.second);
  for (const auto& [feature, names] : classes[0]) {
    const auto theirs = classes[1].find(feature);
    if (theirs == classes[1].end()) continue;
    const std::string contradiction =
        Contradiction(names, flags.first, theirs->second, flags.second);
    if (contradiction.empty()) continue;
    difference.schema.push_back(fmt::format("{}: {}", QuotedName(feature), contradiction));
  }
  const auto is_marked = [&flags](const Drift& drift) {
    return drift.significant && drift.distance > flags.max_drift;
  };
  const auto drifted = static_cast<size_t>(std::ranges::count_if(difference.drift, is_marked));
  const int exit = difference.schema.empty() && drifted == 0 ? kExitDone : kExitDefects;

  if (options.json) {
    nlohmann::ordered_json drift = nlohmann::ordered_json::array();
    for (const Drift& one : difference.drift) {
      nlohmann::ordered_json entry = {{"feature", one.feature},
                                      {"distance", one.distance},
                                      {"measure", one.measure},
                                      {"significant", one.significant}};
      if (!one.value.empty()) entry["value"] = one.value;
      drift.push_back(std::move(entry));
    }
    const nlohmann::ordered_json json = {
        {"first", {{"records", first.schema().records()}, {"features", StatisticsToJson(first)}}},
        {"second",
         {{"records", second.schema().records()}, {"features", StatisticsToJson(second)}}},
        {"schema", difference.schema},
        {"drift", drift},
        {"not_compared", difference.not_compared},
        {"max_drift", flags.max_drift},
        {"drifted", drifted}};
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return exit;
  }
  if (options.quiet) return exit;
  for (int i = 0; i < 2; ++i) {
    fmt::print("{}: {} records{}\n", OneLine(*specs[i]), FormatCount(sides[i]->schema().records()),
               from_manifest[i] ? ", statistics from its manifest" : "");
  }
  for (const std::string& line : difference.schema)
    fmt::print("{} {}\n", Painted(Paint::kBad, "schema:", STDOUT_FILENO), OneLine(line));
  if (difference.schema.empty()) fmt::print("the schemas are equal\n");
  for (const Drift& one : difference.drift) {
    fmt::print("{} {:.3f}  {}: {}; {} | {}\n",
               is_marked(one) ? Painted(Paint::kBad, "*", STDOUT_FILENO) : " ", one.distance,
               OneLine(one.feature), MeasureOf(one), SideOf(first, one), SideOf(second, one));
  }
  if (!difference.not_compared.empty()) {
    PrintNote(fmt::format(
        "the values of {} were not compared: only the first {} features by name have statistics",
        OneLine(FirstOf(difference.not_compared)), ValueStatistics::kMaxFeatures));
  }
  if (drifted > 0) {
    fmt::print("{} feature{} marked * differ{} by more than {:g}\n", FormatCount(drifted),
               drifted == 1 ? "" : "s", drifted == 1 ? "s" : "", flags.max_drift);
  }
  return exit;
}

}  // namespace

void AddDiffCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand(
      "diff", "Compare the schemas and the distributions of values of two datasets");
  auto flags = std::make_shared<DiffFlags>();
  command
      ->add_option("FIRST", flags->first,
                   "stem@N, stem@*, a folder, a glob, a file, or a URL of these")
      ->required();
  command->add_option("SECOND", flags->second, "the other dataset, likewise")->required();
  command
      ->add_option("--max-drift", flags->max_drift,
                   "features whose distance is larger are marked, and make the status 1")
      ->check(FiniteNumber(0, 1))
      ->type_name("DISTANCE")
      ->capture_default_str();
  command->add_flag("--recompute", flags->recompute,
                    "read all records, whatever the manifests have");
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Reads all records of a dataset whose manifest has no statistics. The distance of a feature\n"
      "lies between 0 and 1: the largest difference between the distribution functions of its\n"
      "numbers, the frequencies of one of its values, or the shares of records that lack it. A\n"
      "distance that samples of these sizes may have by chance is not marked.\n"
      "Exit status: 0 if the schemas are equal and nothing is marked, otherwise 1.\n\n"
      "Examples:\n"
      "  shardfeed diff out/train@64 out/val@4\n"
      "  shardfeed diff monday/log@8 tuesday/log@8 --max-drift 0.02 --json\n");
  command->callback([flags, &options, exit] { *exit = Diff(*flags, options); });
}

}  // namespace shardfeed
