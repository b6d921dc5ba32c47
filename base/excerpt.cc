#include "base/excerpt.h"

#include "base/utf8.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

void AppendEscaped(std::string_view text, bool quoted, std::string* out) {
  const bool utf8 = IsUtf8(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (utf8 && BeginsWithC1Control(text.substr(i))) {
      *out += fmt::format("\\u00{:02x}", static_cast<unsigned char>(text[++i]));
    } else if (quoted && (c == '"' || c == '\\')) {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '\r') {
      *out += "\\r";
    } else if (c == '\t') {
      *out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
      *out += fmt::format("\\x{:02x}", byte);
    } else {
      *out += c;
    }
  }
}

}  // namespace

std::string Excerpt(std::string_view text, size_t max_bytes) {
  std::string_view shown = text;
  if (shown.size() > max_bytes) {
    // Cut between characters, not before a continuation byte.
    size_t end = max_bytes;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
    shown = text.substr(0, end);
  }
  std::string quoted = "\"";
  AppendEscaped(shown, /*quoted=*/true, &quoted);
  quoted += shown.size() < text.size() ? "...\"" : "\"";
  return quoted;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  AppendEscaped(text, /*quoted=*/false, &escaped);
  return escaped;
}

}  // namespace shardfeed
