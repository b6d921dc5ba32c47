#include "tfrecord/example_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

using Json = nlohmann::ordered_json;

// Parses both kinds of messages: they differ only in field 2, which an Example does not have.
absl::StatusOr<SequenceExample> Parse(std::string_view record) {
  // The library would print to standard error that names are not UTF-8.
  static const google::protobuf::LogSilencer silencer;
  SequenceExample message;
  if (!message.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return absl::DataLossError("not a tf.train.Example");
  }
  return message;
}

bool IsUtf8(std::string_view bytes) {
  // The JSON serialiser throws if a string is not UTF-8.
  try {
    Json(std::string(bytes)).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

Json BytesToJson(const std::string& bytes) {
  if (IsUtf8(bytes)) return bytes;
  return {{"base64", absl::Base64Escape(bytes)}};
}

Json FloatToJson(float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  // Parse the shortest decimal, so that 0.1f becomes 0.1 rather than 0.10000000149011612. Whole
  // numbers keep a fraction (3.0), so that they remain floats.
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return Json::parse(text);
}

Json ToJson(const Feature& feature) {
  Json values = Json::array();
  for (const std::string& value : feature.bytes_list().value())
    values.push_back(BytesToJson(value));
  for (float value : feature.float_list().value()) values.push_back(FloatToJson(value));
  for (int64_t value : feature.int64_list().value()) values.push_back(value);
  return values;
}

Json ToJson(const Features& features) {
  std::map<std::string, const Feature*> sorted;
  for (const auto& [name, feature] : features.feature()) sorted[name] = &feature;
  Json json = Json::object();
  for (const auto& [name, feature] : sorted) json[name] = ToJson(*feature);
  return json;
}

// Names may contain any bytes; invalid UTF-8 is replaced rather than rejected.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr int kValuesShown = 8;
constexpr size_t kTextShown = 60;
constexpr size_t kBytesShown = 12;

std::string BytesSummary(const std::string& bytes) {
  const bool text = IsUtf8(bytes) && std::none_of(bytes.begin(), bytes.end(), [](unsigned char c) {
                      return c < 0x20 && c != '\n' && c != '\t' && c != '\r';
                    });
  if (text && bytes.size() <= kTextShown) return Dump(Json(bytes));
  if (text) {
    size_t cut = kTextShown;
    while (cut > 0 && (bytes[cut] & 0xc0) == 0x80) --cut;  // Do not cut within a character.
    return fmt::format("{}... ({} bytes)", Dump(Json(bytes.substr(0, cut))), bytes.size());
  }
  std::string hex;
  for (size_t i = 0; i < std::min(bytes.size(), kBytesShown); ++i) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return fmt::format("<{} bytes: {}{}>", bytes.size(), hex,
                     bytes.size() > kBytesShown ? "..." : "");
}

struct ValuesText {
  std::string kind = "none";
  int size = 0;
  std::string values;  // in brackets unless there is exactly one
};

ValuesText TextOf(const Feature& feature) {
  ValuesText text;
  const auto list = [&](const char* name, const auto& all, const auto& format) {
    text.kind = name;
    text.size = all.size();
    for (int i = 0; i < std::min(text.size, kValuesShown); ++i) {
      text.values += (i > 0 ? ", " : "") + format(all.Get(i));
    }
  };
  switch (feature.kind_case()) {
    case Feature::kBytesList:
      list("bytes", feature.bytes_list().value(), BytesSummary);
      break;
    case Feature::kFloatList:
      list("float", feature.float_list().value(), [](float v) { return fmt::format("{}", v); });
      break;
    case Feature::kInt64List:
      list("int64", feature.int64_list().value(), [](int64_t v) { return fmt::format("{}", v); });
      break;
    case Feature::KIND_NOT_SET:
      break;
  }
  if (text.size > kValuesShown) text.values += fmt::format(", ... ({} values)", text.size);
  if (text.size != 1) text.values = "[" + text.values + "]";
  return text;
}

std::string ValuesSummary(const Feature& feature) {
  const ValuesText text = TextOf(feature);
  return fmt::format("{:<5}  {}", text.kind, text.values);
}

// What the summary says of a feature list.
std::string ListSummary(const FeatureList& list) {
  return fmt::format(
      "{} steps{}", list.feature_size(),
      list.feature_size() > 0 ? ", the first: " + ValuesSummary(list.feature(0)) : "");
}

}  // namespace

absl::StatusOr<std::string> ExampleToJson(std::string_view record) {
  absl::StatusOr<SequenceExample> message = Parse(record);
  if (!message.ok()) return message.status();
  if (!message->has_feature_lists()) return Dump(ToJson(message->context()));
  std::map<std::string, const FeatureList*> sorted;
  for (const auto& [name, list] : message->feature_lists().feature_list()) sorted[name] = &list;
  Json lists = Json::object();
  for (const auto& [name, list] : sorted) {
    Json& steps = lists[name] = Json::array();
    for (const Feature& step : list->feature()) steps.push_back(ToJson(step));
  }
  return Dump({{"context", ToJson(message->context())}, {"feature_lists", lists}});
}

absl::StatusOr<std::string> ExampleToTextProto(std::string_view record) {
  absl::StatusOr<SequenceExample> sequence = Parse(record);
  if (!sequence.ok()) return sequence.status();
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  if (sequence->has_feature_lists()) {
    printer.PrintToString(*sequence, &text);
  } else {
    Example example;
    *example.mutable_features() = sequence->context();
    printer.PrintToString(example, &text);
  }
  return text;
}

absl::StatusOr<std::string> ExampleToSummary(std::string_view record, std::string_view only) {
  absl::StatusOr<SequenceExample> message = Parse(record);
  if (!message.ok()) return message.status();
  std::map<std::string, std::string> lines;
  for (const auto& [name, feature] : message->context().feature()) {
    lines[name] = ValuesSummary(feature);
  }
  for (const auto& [name, list] : message->feature_lists().feature_list()) {
    lines[name] = ListSummary(list);
  }
  size_t width = 0;
  for (const auto& [name, text] : lines) width = std::max(width, name.size());
  std::string summary;
  for (const auto& [name, text] : lines) {
    if (only.empty() || name == only) summary += fmt::format("  {:<{}}  {}\n", name, width, text);
  }
  return summary;
}

absl::StatusOr<std::map<std::string, std::string>> ExampleToValues(std::string_view record) {
  absl::StatusOr<SequenceExample> message = Parse(record);
  if (!message.ok()) return message.status();
  std::map<std::string, std::string> values;
  for (const auto& [name, feature] : message->context().feature()) {
    ValuesText text = TextOf(feature);
    if (text.size > 0) values[name] = std::move(text.values);
  }
  for (const auto& [name, list] : message->feature_lists().feature_list()) {
    if (list.feature_size() > 0) values[name] = ListSummary(list);
  }
  return values;
}

}  // namespace shardfeed
