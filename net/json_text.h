// Members of JSON that servers and files of credentials give.

#ifndef SHARDFEED_NET_JSON_TEXT_H_
#define SHARDFEED_NET_JSON_TEXT_H_

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace shardfeed {

// Parses a text. If it is not JSON, the result has no members.
inline nlohmann::json ParseJsonText(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// A member of an object that is a string; empty if there is none.
inline std::string TextMember(const nlohmann::json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string()
             ? json[name].get<std::string>()
             : "";
}

}  // namespace shardfeed

#endif  // SHARDFEED_NET_JSON_TEXT_H_
