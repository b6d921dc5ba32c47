#include "io/bounded_json.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

// Counts brackets and commas outside strings. Up to the first syntax error, where the parser stops,
// the counts are upper bounds on the values and levels that it will see.
absl::Status CheckBounds(std::string_view text, size_t max_values) {
  size_t depth = 0;
  size_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        break;
      case '[':
      case '{':
        ++values;
        if (++depth > kMaxJsonDepth) {
          return absl::DataLossError(
              fmt::format("at byte {} its values are nested more than {} deep", i, kMaxJsonDepth));
        }
        break;
      case ']':
      case '}':
        if (depth > 0) --depth;
        break;
      case ',':
        ++values;
        break;
      default:
        break;
    }
  }
  if (values <= max_values) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("it holds {} values, expected at most {}", values, max_values));
}

absl::Status Parse(std::string_view text, size_t max_values,
                   const Json::parser_callback_t& callback, Json* json) {
  absl::Status status = CheckBounds(text, max_values);
  if (!status.ok()) return status;
  try {
    *json = Json::parse(text, callback);
  } catch (const Json::exception& e) {
    // Without the library's own code in brackets.
    std::string_view what = e.what();
    if (what.starts_with('[')) what.remove_prefix(std::min(what.find(' '), what.size() - 1) + 1);
    return absl::DataLossError(std::string(what));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseBoundedJson(std::string_view text, Json* json, size_t max_values) {
  return Parse(text, max_values, nullptr, json);
}

absl::Status ParseTopOfJson(std::string_view text, Json* json) {
  const auto is_top = [](int depth, Json::parse_event_t event, Json&) {
    return depth == 0 || (event != Json::parse_event_t::object_start &&
                          event != Json::parse_event_t::array_start);
  };
  return Parse(text, kMaxJsonValues, is_top, json);
}

template <typename IsExpected>
const Json* JsonMembers::Find(const Json& object, std::string_view key, std::string_view expected,
                              IsExpected is_expected) {
  const auto member = object.find(key);
  if (member != object.end() && is_expected(*member)) return &*member;
  constexpr size_t kShown = 40;
  if (member == object.end()) {
    Fail(fmt::format("\"{}\" is missing, expected {}", key, expected));
    return nullptr;
  }
  std::string found = fmt::format("an {}", member->type_name());
  if (!member->is_structured()) {
    found = member->dump();
    // A long value is not truncated, because a cut within a character would not be UTF-8.
    if (found.size() > kShown)
      found = fmt::format("a {} of {} bytes", member->type_name(), found.size());
  }
  Fail(fmt::format("\"{}\": expected {}, got {}", key, expected, found));
  return nullptr;
}

uint64_t JsonMembers::Number(const Json& object, std::string_view key, uint64_t most) {
  const auto fits = [most](const Json& m) {
    const bool is_negative = !m.is_number_unsigned() && m.is_number() && m < 0;
    return m.is_number_integer() && !is_negative && m.get<uint64_t>() <= most;
  };
  std::string range;
  std::string_view expected = "an unsigned 64-bit integer";
  if (most != UINT64_MAX) expected = range = fmt::format("an integer from 0 to {}", most);
  const Json* member = Find(object, key, expected, fits);
  return member != nullptr ? member->get<uint64_t>() : 0;
}

bool JsonMembers::Flag(const Json& object, std::string_view key) {
  const Json* member =
      Find(object, key, "true or false", [](const Json& m) { return m.is_boolean(); });
  return member != nullptr && member->get<bool>();
}

std::string JsonMembers::Text(const Json& object, std::string_view key) {
  const Json* member = Find(object, key, "a string", [](const Json& m) { return m.is_string(); });
  return member != nullptr ? member->get<std::string>() : std::string();
}

std::vector<std::string> JsonMembers::Texts(const Json& object, std::string_view key) {
  const auto are_texts = [](const Json& m) {
    return m.is_array() &&
           std::all_of(m.begin(), m.end(), [](const Json& e) { return e.is_string(); });
  };
  const Json* member = Find(object, key, "a list of strings", are_texts);
  return member != nullptr ? member->get<std::vector<std::string>>() : std::vector<std::string>();
}

const Json& JsonMembers::Object(const Json& object, std::string_view key) {
  static const Json* const kEmpty = new Json(Json::object());
  const Json* member = Find(object, key, "an object", [](const Json& m) { return m.is_object(); });
  return member != nullptr ? *member : *kEmpty;
}

const Json& JsonMembers::Array(const Json& object, std::string_view key) {
  static const Json* const kEmpty = new Json(Json::array());
  const Json* member = Find(object, key, "a list", [](const Json& m) { return m.is_array(); });
  return member != nullptr ? *member : *kEmpty;
}

void JsonMembers::Fail(std::string_view what) {
  if (status_.ok()) status_ = absl::DataLossError(std::string(what));
}

}  // namespace shardfeed
