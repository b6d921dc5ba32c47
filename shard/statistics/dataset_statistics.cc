#include "shard/statistics/dataset_statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/excerpt.h"
#include "base/little_endian.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

double ShareMissing(const DatasetStatistics& dataset, const FeatureSchema& feature) {
  const uint64_t examples = dataset.num_examples();
  if (examples == 0) return 0;
  return 1 - std::min(1.0, static_cast<double>(feature.records) / static_cast<double>(examples));
}

// Returns the largest difference in how frequent a value is, among the values that either of them
// counts, and the text of that value.
double FrequencyDistance(const FeatureStatistics& a, const FeatureStatistics& b,
                         std::string* value) {
  double largest = 0;
  const auto compare = [&](const FeatureStatistics& ours, const FeatureStatistics& theirs) {
    const std::map<uint64_t, uint64_t> counts = theirs.frequent().Counts();
    for (const FrequentValues::Entry& entry : ours.frequent().Top(SIZE_MAX)) {
      const double in_ours = static_cast<double>(entry.count) / static_cast<double>(ours.values());
      const auto found = counts.find(entry.key);
      const double in_theirs = found == counts.end() ? 0
                                                     : static_cast<double>(found->second) /
                                                           static_cast<double>(theirs.values());
      const double distance = std::abs(in_ours - in_theirs);
      if (distance <= largest) continue;
      largest = distance;
      *value = Escaped(ours.TextOf(entry));
    }
  };
  compare(a, b);
  compare(b, a);
  return largest;
}

// Returns what the distance of two samples of one distribution exceeds once in a thousand
// (Smirnov's asymptotic formula).
double DistanceByChance(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return 1;
  return 1.95 * std::sqrt(1 / static_cast<double>(a) + 1 / static_cast<double>(b));
}

std::string ShapeOf(const FeatureSchema& feature) {
  if (feature.min_values == 1) return "one value";
  return fmt::format("{} values", feature.min_values);
}

Drift DriftOf(const DatasetStatistics& first, const DatasetStatistics& second,
              const std::string& name) {
  Drift drift;
  drift.feature = name;
  const auto note = [&](double distance, std::string_view measure, uint64_t a, uint64_t b,
                        std::string value = "") {
    if (distance < drift.distance || (distance == 0 && !drift.measure.empty())) return;
    drift.distance = distance;
    drift.measure = measure;
    drift.value = std::move(value);
    drift.significant = distance > DistanceByChance(a, b);
  };
  const FeatureSchema& in_first = first.schema().features().at(name);
  const FeatureSchema& in_second = second.schema().features().at(name);
  const auto a = first.features().find(name);
  const auto b = second.features().find(name);
  if (a != first.features().end() && b != second.features().end() && a->second.values() > 0 &&
      b->second.values() > 0) {
    const FeatureStatistics& ours = a->second;
    const FeatureStatistics& theirs = b->second;
    const auto note_share = [&](uint64_t in_ours, uint64_t in_theirs, std::string_view measure) {
      if (in_ours == 0 && in_theirs == 0) return;
      note(std::abs(static_cast<double>(in_ours) / static_cast<double>(ours.values()) -
                    static_cast<double>(in_theirs) / static_cast<double>(theirs.values())),
           measure, ours.values(), theirs.values());
    };
    note_share(ours.nan(), theirs.nan(), "NaN");
    note_share(ours.infinite(), theirs.infinite(), "infinite");
    if (in_first.min_values != in_first.max_values ||
        in_second.min_values != in_second.max_values) {
      note(NumberHistogram::Distance(ours.lengths(), theirs.lengths()), "length", ours.records(),
           theirs.records());
    }
    if (ours.has_numbers() && theirs.has_numbers()) {
      note(NumberHistogram::Distance(ours.histogram(), theirs.histogram()), "distribution",
           ours.histogram().count(), theirs.histogram().count());
    }
    if (ours.kind() != FeatureKind::kFloat) {
      std::string value;
      const double distance = FrequencyDistance(ours, theirs, &value);
      note(distance, "frequency", ours.frequent().counted(), theirs.frequent().counted(),
           std::move(value));
    }
  }
  note(std::abs(ShareMissing(first, in_first) - ShareMissing(second, in_second)), "missing",
       first.schema().records(), second.schema().records());
  return drift;
}

}  // namespace

absl::Status DatasetStatistics::Add(const Record& record) {
  // The footer has the CRC, which is not computed twice.
  const char* const footer = record.payload.data() + record.payload.size();
  return values_.Add(record.payload, UnmaskCrc(LoadLittleEndian<uint32_t>(footer)), schema_);
}

bool DatasetStatistics::CountsValuesOf(std::string_view name) const {
  if (values().has_all() || features().contains(name)) return true;
  const auto it = schema_.features().find(name);
  return it == schema_.features().end() || it->second.kind == FeatureKind::kNone;
}

void DatasetStatistics::Merge(const DatasetStatistics& other) {
  schema_.Merge(other.schema_);
  values_.Merge(other.values());
}

DatasetDifference Compare(const DatasetStatistics& first, const DatasetStatistics& second,
                          std::string_view a, std::string_view b) {
  DatasetDifference difference;
  const auto& ours = first.schema().features();
  const auto& theirs = second.schema().features();
  for (const auto& [name, feature] : ours) {
    const auto it = theirs.find(name);
    if (it == theirs.end()) {
      difference.schema.push_back(fmt::format("only {} has feature '{}'", a, name));
      continue;
    }
    const FeatureSchema& other = it->second;
    // A feature without a value in any record has no kind, and fits all.
    if (feature.kind != other.kind && feature.kind != FeatureKind::kNone &&
        other.kind != FeatureKind::kNone) {
      difference.schema.push_back(fmt::format("feature '{}' is {} in {} and {} in {}", name,
                                              FeatureKindName(feature.kind), a,
                                              FeatureKindName(other.kind), b));
      continue;
    }
    if (feature.is_list != other.is_list) {
      difference.schema.push_back(fmt::format("feature '{}' is a list of steps in {} alone", name,
                                              feature.is_list ? a : b));
      continue;
    }
    const bool fixed = feature.min_values == feature.max_values;
    if (fixed && other.min_values == other.max_values && feature.min_values != other.min_values) {
      difference.schema.push_back(fmt::format("feature '{}' has {} in {} and {} in {}", name,
                                              ShapeOf(feature), a, ShapeOf(other), b));
    }
    difference.drift.push_back(DriftOf(first, second, name));
    if (!first.CountsValuesOf(name) || !second.CountsValuesOf(name)) {
      difference.not_compared.push_back(name);
    }
  }
  for (const auto& [name, feature] : theirs) {
    if (!ours.contains(name)) {
      difference.schema.push_back(fmt::format("only {} has feature '{}'", b, name));
    }
  }
  std::stable_sort(difference.drift.begin(), difference.drift.end(),
                   [](const Drift& x, const Drift& y) { return x.distance > y.distance; });
  return difference;
}

}  // namespace shardfeed
