#include "cli/reports/tfds_report.h"

#include <algorithm>
#include <string_view>

#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

std::string_view EncodingName(TfdsEncoding encoding) {
  switch (encoding) {
    case TfdsEncoding::kBytes:
      return "bytes";
    case TfdsEncoding::kZlib:
      return "zlib";
    default:
      return "none";
  }
}

std::string TypeText(const TfdsFeature& feature) {
  std::string text = feature.dtype.empty() ? "?" : OneLine(feature.dtype);
  if (!feature.shape.empty()) {
    std::string sizes;
    for (int64_t size : feature.shape) {
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ",
                           size < 0 ? "any" : fmt::format("{}", size));
    }
    text += fmt::format(" [{}]", sizes);
  }
  return text;
}

}  // namespace

void PrintTfdsFeatures(const TfdsFeatures& features, const std::string& only) {
  size_t names = 0;
  size_t types = 0;
  for (const TfdsFeature& feature : features.features) {
    names = std::max(names, OneLine(feature.name).size());
    types = std::max(types, TypeText(feature).size());
  }
  fmt::print("declared in {}:\n", features.path);
  for (const TfdsFeature& feature : features.features) {
    if (!only.empty() && feature.name != only) continue;
    std::string rest = OneLine(feature.connector);
    if (!feature.image_format.empty()) rest += ", " + OneLine(feature.image_format);
    if (feature.encoding != TfdsEncoding::kNone) {
      rest += fmt::format(", encoded ({})", EncodingName(feature.encoding));
    }
    if (feature.optional) rest += ", optional";
    if (!feature.problem.empty()) rest += ": " + OneLine(feature.problem);
    fmt::print("  {:<{}}  {:<{}}  {}\n", OneLine(feature.name), names, TypeText(feature), types,
               rest);
  }
}

nlohmann::ordered_json TfdsFeaturesToJson(const TfdsFeatures& features) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const TfdsFeature& feature : features.features) {
    nlohmann::ordered_json& entry = json[feature.name];
    entry = {{"connector", feature.connector}, {"dtype", feature.dtype}, {"shape", feature.shape}};
    if (feature.encoding != TfdsEncoding::kNone) entry["encoding"] = EncodingName(feature.encoding);
    if (feature.optional) entry["optional"] = true;
    if (!feature.image_format.empty()) entry["image_format"] = feature.image_format;
    if (feature.num_classes > 0) entry["num_classes"] = feature.num_classes;
    if (!feature.problem.empty()) entry["problem"] = feature.problem;
  }
  return json;
}

}  // namespace shardfeed
