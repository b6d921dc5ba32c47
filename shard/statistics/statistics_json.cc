#include "shard/statistics/statistics_json.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

constexpr uint64_t kVersion = 1;
constexpr size_t kToldFrequent = 20;

nlohmann::ordered_json QuantilesOf(const auto& of) {
  nlohmann::ordered_json quantiles = nlohmann::ordered_json::array();
  for (double share : kToldShares) {
    quantiles.push_back({{"share", share}, {"value", of.Quantile(share)}});
  }
  return quantiles;
}

nlohmann::ordered_json SizesToJson(const ImageStatistics::Sizes& sizes) {
  return {{"min", sizes.min},
          {"max", sizes.max},
          {"mean", sizes.histogram.Mean()},
          {"quantiles", QuantilesOf(sizes)}};
}

nlohmann::ordered_json ImagesToJson(const ImageStatistics& images) {
  nlohmann::ordered_json formats = nlohmann::ordered_json::object();
  for (size_t i = 0; i < images.formats().size(); ++i) {
    if (images.formats()[i] > 0) formats[ImageStatistics::kFormats[i]] = images.formats()[i];
  }
  return {{"formats", formats},
          {"width", SizesToJson(images.widths())},
          {"height", SizesToJson(images.heights())}};
}

nlohmann::ordered_json FeatureToJson(const FeatureSchema& schema, uint64_t records,
                                     const FeatureStatistics* feature) {
  nlohmann::ordered_json json = {{"kind", FeatureKindName(schema.kind)},
                                 {"records", schema.records},
                                 {"missing", records - std::min(records, schema.records)},
                                 {"min_values", schema.min_values},
                                 {"max_values", schema.max_values}};
  if (feature == nullptr) return json;
  // Of several kinds, the values of one are counted.
  if (feature->values() > 0) json["kind"] = FeatureKindName(feature->kind());
  json["values"] = feature->values();
  if (schema.min_values != schema.max_values) {
    const NumberHistogram lengths = feature->lengths();
    json["values_in_record"] = {{"mean", lengths.Mean()},
                                {"deviation", lengths.Deviation()},
                                {"quantiles", QuantilesOf(lengths)}};
  }
  if (feature->kind() == FeatureKind::kBytes) {
    json["bytes"] = feature->total_bytes();
    if (schema.min_bytes <= schema.max_bytes) {
      json["min_bytes"] = schema.min_bytes;
      json["max_bytes"] = schema.max_bytes;
    }
    if (feature->images().count() > 0) json["images"] = ImagesToJson(feature->images());
  } else {
    json["zeros"] = feature->zeros();
    if (feature->kind() == FeatureKind::kFloat) {
      json["nan"] = feature->nan();
      json["infinite"] = feature->infinite();
    }
  }
  if (feature->has_numbers()) {
    if (feature->kind() == FeatureKind::kInt64) {
      json["min"] = feature->min_int();
      json["max"] = feature->max_int();
    } else {
      json["min"] = feature->min();
      json["max"] = feature->max();
    }
    json["mean"] = feature->mean();
    json["deviation"] = feature->deviation();
    json["quantiles"] = QuantilesOf(*feature);
  }
  bool exact;
  json["distinct"] = feature->Distinct(&exact);
  json["distinct_is_exact"] = exact;
  nlohmann::ordered_json& frequent = json["frequent"] = nlohmann::ordered_json::array();
  for (const FrequentValues::Entry& entry : feature->frequent().Top(kToldFrequent)) {
    if (entry.count < 2 || !IsShown(*feature, entry)) break;
    frequent.push_back({{"value", feature->TextOf(entry)}, {"count", entry.count}});
  }
  json["frequent_max_error"] = feature->frequent().max_error();
  return json;
}

std::string CodeOf(const auto& statistics) {
  StatisticsWriter out;
  statistics.Write(out);
  return std::move(out.code());
}

}  // namespace

bool IsShown(const FeatureStatistics& feature, const FrequentValues::Entry& entry) {
  if (feature.kind() != FeatureKind::kBytes) return true;
  return entry.bytes == entry.text.size() && IsUtf8(entry.text);
}

nlohmann::ordered_json StatisticsToJson(const Schema& schema, const ValueStatistics& values) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const uint64_t examples = schema.records() - schema.not_examples();
  for (const auto& [name, feature] : schema.features()) {
    const auto found = values.features().find(name);
    json[name] = FeatureToJson(feature, examples,
                               found == values.features().end() ? nullptr : &found->second);
  }
  return json;
}

nlohmann::ordered_json StatisticsToManifest(const Schema& schema, const ValueStatistics& values) {
  nlohmann::ordered_json json = {{"version", kVersion}};
  bool exact;
  if (const std::optional<uint64_t> repeated = values.equal_records().repeated(&exact)) {
    json["repeated_records"] = *repeated;
    json["repeated_records_is_exact"] = exact;
  }
  // Features without statistics are described by the schema.
  nlohmann::ordered_json& features = json["features"] = nlohmann::ordered_json::object();
  const uint64_t examples = schema.records() - schema.not_examples();
  for (const auto& [name, feature] : values.features()) {
    const auto found = schema.features().find(name);
    if (found != schema.features().end()) {
      features[name] = FeatureToJson(found->second, examples, &feature);
    }
  }
  json["code"] = values.FormatText(/*whole=*/false);
  return json;
}

absl::StatusOr<std::shared_ptr<const ValueStatistics>> StatisticsFromManifest(
    const nlohmann::json& json, const Schema& schema) {
  if (!json.is_object()) return absl::DataLossError("its statistics are not an object");
  JsonMembers members;
  const uint64_t version = members.Number(json, "version");
  if (!members.status().ok()) return members.status();
  if (version > kVersion) return nullptr;
  const std::string code = members.Text(json, "code");
  if (!members.status().ok()) return members.status();
  std::shared_ptr<const ValueStatistics> values =
      ValueStatistics::ParseText(code, schema.records());
  if (values == nullptr) {
    return absl::DataLossError(
        fmt::format("the code of its statistics is not that of {} records", schema.records()));
  }
  return values;
}

std::string DifferenceOf(const ValueStatistics& stored, const ValueStatistics& found,
                         const Schema& schema) {
  for (const auto& [name, ours] : found.features()) {
    const auto it = stored.features().find(name);
    if (it == stored.features().end()) return fmt::format("no feature '{}'", name);
    const FeatureStatistics& theirs = it->second;
    std::string wrong;
    const auto compare = [&](std::string_view what, auto in_stored, auto in_found) {
      if (in_stored == in_found) return;
      wrong += fmt::format("{}{} {} instead of {}", wrong.empty() ? "" : ", ", what, in_stored,
                           in_found);
    };
    compare("kind", FeatureKindName(theirs.kind()), FeatureKindName(ours.kind()));
    compare("records", theirs.records(), ours.records());
    compare("values", theirs.values(), ours.values());
    compare("NaN", theirs.nan(), ours.nan());
    compare("infinite", theirs.infinite(), ours.infinite());
    compare("zeros", theirs.zeros(), ours.zeros());
    compare("bytes", theirs.total_bytes(), ours.total_bytes());
    if (ours.kind() == FeatureKind::kInt64) {
      compare("min", theirs.min_int(), ours.min_int());
      compare("max", theirs.max_int(), ours.max_int());
    } else {
      compare("min", theirs.min(), ours.min());
      compare("max", theirs.max(), ours.max());
    }
    // The statistics of long lists are those of a sample.
    const auto at = schema.features().find(name);
    if (at != schema.features().end() && at->second.max_values < FeatureStatistics::kLongList) {
      compare("mean", theirs.mean(), ours.mean());
      compare("deviation", theirs.deviation(), ours.deviation());
      if (CodeOf(theirs.histogram()) != CodeOf(ours.histogram())) {
        compare("distribution", "another"sv, "the records'"sv);
      }
      if (CodeOf(theirs.images()) != CodeOf(ours.images())) {
        compare("images", "others"sv, "the records'"sv);
      }
      bool exact;
      compare("different values", theirs.Distinct(&exact), ours.Distinct(&exact));
      if (exact && theirs.frequent().Counts() != ours.frequent().Counts()) {
        compare("frequent values", "others"sv, "the records'"sv);
      }
    }
    if (CodeOf(theirs.lengths()) != CodeOf(ours.lengths())) {
      compare("numbers of values", "others"sv, "the records'"sv);
    }
    if (!wrong.empty()) return fmt::format("feature '{}': {}", name, wrong);
  }
  for (const auto& [name, feature] : stored.features()) {
    if (!found.features().contains(name)) {
      return fmt::format("feature '{}', which no record has", name);
    }
  }
  // Other versions estimate by other records.
  bool is_exact;
  bool was_exact;
  const std::optional<uint64_t> ours = found.equal_records().repeated(&is_exact);
  const std::optional<uint64_t> theirs = stored.equal_records().repeated(&was_exact);
  if (ours && theirs && is_exact && was_exact && *ours != *theirs) {
    return fmt::format("{} repeated records instead of {}", *theirs, *ours);
  }
  return "";
}

}  // namespace shardfeed
