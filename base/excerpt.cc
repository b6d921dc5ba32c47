#include "base/excerpt.h"

#include "base/utf8.h"
#include "fmt/format.h"

namespace shardfeed {

std::string Excerpt(std::string_view text, size_t max_bytes) {
  std::string_view shown = text;
  if (shown.size() > max_bytes) {
    // Cut between characters, not before a continuation byte.
    size_t end = max_bytes;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
    shown = text.substr(0, end);
  }
  const bool utf8 = IsUtf8(shown);
  std::string quoted = "\"";
  for (char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  quoted += shown.size() < text.size() ? "...\"" : "\"";
  return quoted;
}

}  // namespace shardfeed
