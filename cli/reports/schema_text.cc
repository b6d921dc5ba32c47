#include "cli/reports/schema_text.h"

#include "cli/terminal/units.h"
#include "fmt/format.h"

namespace shardfeed {

std::string SpanText(uint64_t min, uint64_t max) {
  return min == max ? FormatCount(min)
                    : fmt::format("{} to {}", FormatCount(min), FormatCount(max));
}

std::string ShapeText(const FeatureSchema& feature) {
  if (feature.is_list) return "list";
  if (feature.records == 0) return "";
  if (feature.min_values != feature.max_values) {
    return fmt::format("[{}]", SpanText(feature.min_values, feature.max_values));
  }
  return feature.min_values == 1 ? "scalar" : fmt::format("[{}]", FormatCount(feature.min_values));
}

std::string PresenceText(const FeatureSchema& feature, const Schema& schema) {
  std::string text =
      feature.records == schema.records()
          ? "all"
          : fmt::format("{} of {}", FormatCount(feature.records), FormatCount(schema.records()));
  if (feature.mixed_kinds > 0) {
    text += fmt::format(", {} of another kind", FormatCount(feature.mixed_kinds));
  }
  return text;
}

}  // namespace shardfeed
