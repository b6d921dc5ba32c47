#include "net/url.h"

#include <algorithm>
#include <cctype>

namespace shardfeed {

std::optional<std::string_view> SchemeOf(std::string_view url) {
  const size_t end = url.find("://");
  if (end == 0 || end == url.npos) return std::nullopt;
  const std::string_view scheme = url.substr(0, end);
  const bool sound = std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
  return sound ? std::optional(scheme) : std::nullopt;
}

std::string UrlEscape(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~' ||
        (keep_slashes && c == '/')) {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

UrlParts SplitUrl(std::string_view url) {
  const size_t scheme = url.find("://");
  const std::string_view rest = url.substr(scheme + 3);
  const size_t slash = rest.find('/');
  return {url.substr(0, scheme), rest.substr(0, slash),
          slash == rest.npos ? std::string_view() : rest.substr(slash + 1)};
}

}  // namespace shardfeed
