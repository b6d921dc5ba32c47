// Encodings of text files, and the conversion to UTF-8, which is what records contain.

#ifndef SHARDFEED_CONVERT_INPUT_TEXT_ENCODING_H_
#define SHARDFEED_CONVERT_INPUT_TEXT_ENCODING_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace shardfeed {

enum class TextEncoding { kUtf8, kUtf16Le, kUtf16Be, kLatin1, kWindows1252 };

// "UTF-8", "UTF-16", "Latin-1", "Windows-1252".
std::string_view TextEncodingName(TextEncoding encoding);

// Finds an encoding by one of its usual names, in any case: utf-8, utf8, utf-16, utf-16le,
// utf-16be, latin-1, latin1, iso-8859-1, windows-1252, cp1252. "utf-16" is little-endian unless a
// byte order mark says otherwise.
std::optional<TextEncoding> ParseTextEncoding(std::string_view name);

// Returns the encoding of text that starts with a byte order mark, and the size of the mark.
struct ByteOrderMark {
  TextEncoding encoding;
  size_t bytes;
};
std::optional<ByteOrderMark> FindByteOrderMark(std::string_view text);

// Returns the encoding of text in units of two or four bytes, as iconv calls it: "UTF-16" or
// "UTF-32" if the text starts with a byte order mark, "UTF-16LE", "UTF-16BE", "UTF-32LE" or
// "UTF-32BE" if its first two characters are below U+0100. Empty: neither.
std::string_view FindWideEncoding(std::string_view text);
// Returns the error of a file in such an encoding where UTF-8 is expected.
absl::Status WideEncodingError(std::string_view path, std::string_view encoding);

struct ConvertedText {
  size_t read = 0;
  size_t written = 0;
  bool valid = true;
};
// A byte of text becomes at most this many bytes of UTF-8.
inline constexpr size_t kMaxUtf8PerByte = 3;

// Converts the characters at the start of `text`, which is not UTF-8, and writes them to `to`,
// which has room for kMaxUtf8PerByte bytes for each byte of `text`. Stops before a character that
// the end of `text` cuts, and before one that is invalid. The five bytes that Windows-1252 leaves
// undefined become control characters, as in browsers.
ConvertedText ConvertToUtf8(TextEncoding encoding, std::string_view text, char* to);

// Whether text that is not UTF-8 is likely Windows-1252: its characters beyond ASCII are letters of
// words that have ASCII letters too, as in Western European languages, or signs where such texts
// have them. Other encodings of single bytes and of pairs of bytes put many such letters next to
// each other, or signs between letters, and so does damaged UTF-8; encodings for other languages in
// Latin letters may look alike.
bool LooksLikeWindows1252(std::string_view text);

// The place of the first byte that text in Windows-1252 does not have: one that is undefined there,
// or the first one of a character of UTF-8.
std::optional<size_t> FindUnlikeWindows1252(std::string_view text);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_TEXT_ENCODING_H_
