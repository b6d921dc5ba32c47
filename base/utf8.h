// Whether bytes are text.

#ifndef SHARDFEED_BASE_UTF8_H_
#define SHARDFEED_BASE_UTF8_H_

#include <string_view>

namespace shardfeed {

// Whether these are whole characters of UTF-8 (RFC 3629: no surrogates, no overlong forms).
bool IsUtf8(std::string_view text);

// Whether UTF-8 begins with a control character from U+0080 to U+009F, which terminals obey.
inline bool BeginsWithC1Control(std::string_view text) {
  return text.size() > 1 && text[0] == '\xc2' &&
         (static_cast<unsigned char>(text[1]) & 0xe0) == 0x80;
}

// Returns the text without the byte order mark that some editors write before UTF-8.
inline std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_UTF8_H_
