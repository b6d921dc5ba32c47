#include "tfrecord/example_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tfrecord/example_reader.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

// Only the values of the kind are set. Bytes are borrowed from the record.
struct Feature {
  FeatureKind kind = FeatureKind::kNone;
  std::vector<std::string_view> bytes;
  std::vector<float> floats;
  std::vector<int64_t> ints;
};

// An Example, or a SequenceExample with its context and feature lists.
struct Message {
  std::map<std::string, Feature> features;
  std::map<std::string, std::vector<Feature>> lists;
  bool has_features = false;
  bool is_sequence = false;
};

float FloatAt(const char* bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// The functions that read parts of a message return false if it is broken, and accept what Protocol
// Buffers accepts. `depth` is the number of messages that enclose the part.

bool ReadList(std::string_view list, int depth, Feature& feature) {
  WireFields fields(list, depth);
  while (fields.Next()) {
    const std::string_view bytes = fields.bytes();
    const bool is_bytes = fields.Is(1, WireType::kBytes);  // for numbers: whether they are packed
    if (feature.kind == FeatureKind::kBytes) {
      if (is_bytes) feature.bytes.push_back(bytes);
    } else if (feature.kind == FeatureKind::kFloat) {
      if (!is_bytes && !fields.Is(1, WireType::kFixed32)) continue;
      if (bytes.size() % sizeof(float) != 0) return false;
      for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
        feature.floats.push_back(FloatAt(bytes.data() + i));
      }
    } else {
      if (!is_bytes && !fields.Is(1, WireType::kVarint)) continue;
      const char* const end = bytes.data() + bytes.size();
      for (const char* at = bytes.data(); at != end;) {
        const WireNumber number = ReadVarint(at, end);
        if (number.end == nullptr) return false;
        feature.ints.push_back(static_cast<int64_t>(number.value));
        at = number.end;
      }
    }
  }
  return fields.failed() == nullptr;
}

bool ReadFeature(std::string_view bytes, int depth, Feature& feature) {
  WireFields fields(bytes, depth);
  while (fields.Next()) {
    if (fields.field() > 3 || !fields.Is(fields.field(), WireType::kBytes)) continue;
    const auto kind = static_cast<FeatureKind>(fields.field());
    if (feature.kind != kind) feature = {kind};  // if there are several kinds, the last one counts
    if (!ReadList(fields.bytes(), depth + 1, feature)) return false;
  }
  return fields.failed() == nullptr;
}

// Appends the steps of a FeatureList.
bool ReadFeature(std::string_view bytes, int depth, std::vector<Feature>& steps) {
  WireFields fields(bytes, depth);
  while (fields.Next()) {
    if (!fields.Is(1, WireType::kBytes)) continue;
    if (!ReadFeature(fields.bytes(), depth + 1, steps.emplace_back())) return false;
  }
  return fields.failed() == nullptr;
}

// Reads Features or FeatureLists, both of which are maps; the last of equal names counts.
template <typename Value>
bool ReadMap(std::string_view bytes, std::map<std::string, Value>& map) {
  WireFields entries(bytes, 1);
  while (entries.Next()) {
    if (!entries.Is(1, WireType::kBytes)) continue;
    std::string name;
    Value value;
    WireFields entry(entries.bytes(), 2);
    while (entry.Next()) {
      if (entry.Is(1, WireType::kBytes)) {
        name = entry.bytes();
        if (!IsUtf8(name)) return false;
      } else if (entry.Is(2, WireType::kBytes)) {
        if (!ReadFeature(entry.bytes(), 3, value)) return false;
      }
    }
    if (entry.failed() != nullptr) return false;
    map.insert_or_assign(std::move(name), std::move(value));
  }
  return entries.failed() == nullptr;
}

absl::StatusOr<Message> Parse(std::string_view record) {
  Message message;
  WireFields fields(record, 0);
  bool sound = true;
  while (sound && fields.Next()) {
    // Both kinds of messages are alike, except for field 2, which an Example does not have.
    if (fields.Is(1, WireType::kBytes)) {
      message.has_features = true;
      sound = ReadMap(fields.bytes(), message.features);
    } else if (fields.Is(2, WireType::kBytes)) {
      message.is_sequence = true;
      sound = ReadMap(fields.bytes(), message.lists);
    }
  }
  if (!sound || fields.failed() != nullptr) return absl::DataLossError("not a tf.train.Example");
  return message;
}

Json BytesToJson(std::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  return {{"base64", absl::Base64Escape({bytes.data(), bytes.size()})}};
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
  for (std::string_view value : feature.bytes) values.push_back(BytesToJson(value));
  for (float value : feature.floats) values.push_back(FloatToJson(value));
  for (int64_t value : feature.ints) values.push_back(value);
  return values;
}

Json ToJson(const std::map<std::string, Feature>& features) {
  Json json = Json::object();
  for (const auto& [name, feature] : features) json[name] = ToJson(feature);
  return json;
}

std::string Dump(const Json& json) {
  std::string text = json.dump();
  if (text.find('\xc2') == text.npos) return text;
  // JSON may have them, but a terminal would obey them.
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsWithC1Control(std::string_view(text).substr(i))) {
      escaped += fmt::format("\\u00{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      escaped += text[i];
    }
  }
  return escaped;
}

constexpr size_t kValuesShown = 8;
constexpr size_t kTextShown = 60;
constexpr size_t kBytesShown = 12;

std::string BytesSummary(std::string_view bytes) {
  const bool text = IsUtf8(bytes) && std::none_of(bytes.begin(), bytes.end(), [](unsigned char c) {
                      return c < 0x20 && c != '\n' && c != '\t' && c != '\r';
                    });
  if (text && bytes.size() <= kTextShown) return Dump(Json(std::string(bytes)));
  if (text) {
    size_t cut = kTextShown;
    while (cut > 0 && (bytes[cut] & 0xc0) == 0x80) --cut;  // Do not cut within a character.
    return fmt::format("{}... ({} bytes)", Dump(Json(std::string(bytes.substr(0, cut)))),
                       bytes.size());
  }
  std::string hex;
  for (size_t i = 0; i < std::min(bytes.size(), kBytesShown); ++i) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return fmt::format("<{} bytes: {}{}>", bytes.size(), hex,
                     bytes.size() > kBytesShown ? "..." : "");
}

struct ValuesText {
  size_t size = 0;
  std::string values;  // in brackets unless there is exactly one
};

ValuesText TextOf(const Feature& feature) {
  ValuesText text;
  const auto list = [&](const auto& all, const auto& format) {
    text.size += all.size();
    for (size_t i = 0; i < std::min(all.size(), kValuesShown); ++i) {
      text.values += (i > 0 ? ", " : "") + format(all[i]);
    }
  };
  list(feature.bytes, BytesSummary);
  list(feature.floats, [](float v) { return fmt::format("{}", v); });
  list(feature.ints, [](int64_t v) { return fmt::format("{}", v); });
  if (text.size > kValuesShown) text.values += fmt::format(", ... ({} values)", text.size);
  if (text.size != 1) text.values = "[" + text.values + "]";
  return text;
}

std::string ValuesSummary(const Feature& feature) {
  return fmt::format("{:<5}  {}", FeatureKindName(feature.kind), TextOf(feature).values);
}

// What the summary says of a feature list.
std::string ListSummary(const std::vector<Feature>& steps) {
  return fmt::format("{} steps{}", steps.size(),
                     steps.empty() ? "" : ", the first: " + ValuesSummary(steps.front()));
}

// Six digits, or nine if six do not yield the same float or it is subnormal, as Protocol Buffers
// prints it.
std::string FloatToTextProto(float value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{:.6g}", value);
  if (std::fpclassify(value) == FP_SUBNORMAL || std::strtof(text.c_str(), nullptr) != value) {
    text = fmt::format("{:.9g}", value);
  }
  return text;
}

// Appends a message's opening line, its content by `content(indent)`, and its closing line.
template <typename Content>
void AppendMessage(std::string_view name, std::string_view indent, std::string& text,
                   const Content& content) {
  text += fmt::format("{}{} {{\n", indent, name);
  content(fmt::format("{}  ", indent));
  text += fmt::format("{}}}\n", indent);
}

void AppendTextProto(const Feature& feature, std::string_view indent, std::string& text) {
  if (feature.kind == FeatureKind::kNone) return;
  const std::string list = fmt::format("{}_list", FeatureKindName(feature.kind));
  AppendMessage(list, indent, text, [&](std::string_view inner) {
    for (std::string_view value : feature.bytes) {
      const std::string escaped = absl::CEscape({value.data(), value.size()});
      text += fmt::format("{}value: \"{}\"\n", inner, escaped);
    }
    for (float value : feature.floats) {
      text += fmt::format("{}value: {}\n", inner, FloatToTextProto(value));
    }
    for (int64_t value : feature.ints) text += fmt::format("{}value: {}\n", inner, value);
  });
}

void AppendTextProto(const std::vector<Feature>& steps, std::string_view indent,
                     std::string& text) {
  for (const Feature& step : steps) {
    AppendMessage("feature", indent, text,
                  [&](std::string_view inner) { AppendTextProto(step, inner, text); });
  }
}

// Appends a map in a message `name`, whose entries are called `entry`.
template <typename Value>
void AppendMap(std::string_view name, std::string_view entry,
               const std::map<std::string, Value>& map, std::string& text) {
  AppendMessage(name, "", text, [&](std::string_view indent) {
    for (const auto& item : map) {
      AppendMessage(entry, indent, text, [&](std::string_view inner) {
        text += fmt::format("{}key: \"{}\"\n", inner, absl::Utf8SafeCEscape(item.first));
        AppendMessage("value", inner, text,
                      [&](std::string_view deeper) { AppendTextProto(item.second, deeper, text); });
      });
    }
  });
}

}  // namespace

absl::StatusOr<std::string> ExampleToJson(std::string_view record) {
  const absl::StatusOr<Message> message = Parse(record);
  if (!message.ok()) return message.status();
  if (!message->is_sequence) return Dump(ToJson(message->features));
  Json lists = Json::object();
  for (const auto& [name, list] : message->lists) {
    Json& steps = lists[name] = Json::array();
    for (const Feature& step : list) steps.push_back(ToJson(step));
  }
  return Dump({{"context", ToJson(message->features)}, {"feature_lists", lists}});
}

absl::StatusOr<std::string> ExampleToTextProto(std::string_view record) {
  const absl::StatusOr<Message> message = Parse(record);
  if (!message.ok()) return message.status();
  std::string text;
  if (message->has_features) {
    AppendMap(message->is_sequence ? "context" : "features", "feature", message->features, text);
  }
  if (message->is_sequence) AppendMap("feature_lists", "feature_list", message->lists, text);
  return text;
}

absl::StatusOr<std::string> ExampleToSummary(std::string_view record, std::string_view only) {
  const absl::StatusOr<Message> message = Parse(record);
  if (!message.ok()) return message.status();
  std::map<std::string, std::string> lines;
  for (const auto& [name, feature] : message->features) lines[name] = ValuesSummary(feature);
  for (const auto& [name, list] : message->lists) lines[name] = ListSummary(list);
  size_t width = 0;
  for (const auto& [name, text] : lines) width = std::max(width, Escaped(name).size());
  std::string summary;
  for (const auto& [name, text] : lines) {
    if (!only.empty() && name != only) continue;
    summary += fmt::format("  {:<{}}  {}\n", Escaped(name), width, text);
  }
  return summary;
}

absl::StatusOr<std::map<std::string, std::string>> ExampleToValues(std::string_view record) {
  const absl::StatusOr<Message> message = Parse(record);
  if (!message.ok()) return message.status();
  std::map<std::string, std::string> values;
  for (const auto& [name, feature] : message->features) {
    ValuesText text = TextOf(feature);
    if (text.size > 0) values[name] = std::move(text.values);
  }
  for (const auto& [name, list] : message->lists) {
    if (!list.empty()) values[name] = ListSummary(list);
  }
  return values;
}

}  // namespace shardfeed
