#include "convert/input/text_encoding.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/utf8.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

// The characters of the bytes 0x80 to 0x9f, where Windows-1252 differs from Latin-1.
constexpr uint16_t kWindows1252High[32] = {
    0x20ac, 0x0081, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x008d, 0x017d, 0x008f, 0x0090, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x009d, 0x017e, 0x0178};

// Writes a character in UTF-8 and returns the position after it.
char* Put(uint32_t c, char* to) {
  if (c < 0x80) {
    *to++ = static_cast<char>(c);
    return to;
  }
  if (c < 0x800) {
    *to++ = static_cast<char>(0xc0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      *to++ = static_cast<char>(0xe0 | (c >> 12));
    } else {
      *to++ = static_cast<char>(0xf0 | (c >> 18));
      *to++ = static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    }
    *to++ = static_cast<char>(0x80 | ((c >> 6) & 0x3f));
  }
  *to++ = static_cast<char>(0x80 | (c & 0x3f));
  return to;
}

ConvertedText ConvertUtf16(bool big_endian, std::string_view text, char* const to) {
  const auto unit = [&](size_t at) -> uint32_t {
    const auto first = static_cast<unsigned char>(text[at]);
    const auto second = static_cast<unsigned char>(text[at + 1]);
    return big_endian ? first << 8 | second : second << 8 | first;
  };
  ConvertedText converted;
  char* out = to;
  size_t at = 0;
  while (at + 2 <= text.size()) {
    uint32_t c = unit(at);
    size_t size = 2;
    if (c >= 0xd800 && c < 0xe000) {
      // A character of two units: the first is below 0xdc00, the second is not.
      if (c < 0xdc00 && at + 4 > text.size()) break;
      const uint32_t second = c < 0xdc00 ? unit(at + 2) : 0;
      if (second < 0xdc00 || second >= 0xe000) {
        converted.valid = false;
        break;
      }
      c = 0x10000 + ((c - 0xd800) << 10) + (second - 0xdc00);
      size = 4;
    }
    out = Put(c, out);
    at += size;
  }
  converted.read = at;
  converted.written = out - to;
  return converted;
}

// The bytes that Windows-1252 leaves undefined.
constexpr std::string_view kUndefined = "\x81\x8d\x8f\x90\x9d";
// Signs of Windows-1252 that may stand between two letters: dots, dashes, quotes, a no-break space,
// a soft hyphen. They may follow any letter.
constexpr std::string_view kInWords = "\x85\x91\x92\x93\x94\x96\x97\xa0\xab\xad\xb7\xbb";
// Signs that may stand between two letters of ASCII: a trade mark, a registered one, a square, a
// multiplication sign, an accent in place of an apostrophe.
constexpr std::string_view kBetweenLetters = "\x99\xae\xb2\xb4\xd7";

bool Contains(std::string_view bytes, unsigned char byte) {
  return bytes.find(static_cast<char>(byte)) != bytes.npos;
}

// Whether the byte is a letter of Windows-1252 that ASCII does not have.
bool IsHighLetter(unsigned char byte) {
  if (byte >= 0xc0) return byte != 0xd7 && byte != 0xf7;
  return Contains("\x8a\x8c\x8e\x9a\x9c\x9e\x9f\xaa\xb5\xba"sv, byte);
}

bool IsSign(unsigned char byte) { return byte >= 0x80 && !IsHighLetter(byte); }

bool IsLetter(unsigned char byte) { return absl::ascii_isalpha(byte) || IsHighLetter(byte); }

}  // namespace

std::string_view TextEncodingName(TextEncoding encoding) {
  switch (encoding) {
    case TextEncoding::kUtf8:
      return "UTF-8";
    case TextEncoding::kUtf16Le:
    case TextEncoding::kUtf16Be:
      return "UTF-16";
    case TextEncoding::kLatin1:
      return "Latin-1";
    case TextEncoding::kWindows1252:
      return "Windows-1252";
  }
  return "";
}

std::optional<TextEncoding> ParseTextEncoding(std::string_view name) {
  constexpr std::pair<std::string_view, TextEncoding> kNames[] = {
      {"utf-8", TextEncoding::kUtf8},
      {"utf8", TextEncoding::kUtf8},
      {"utf-16", TextEncoding::kUtf16Le},
      {"utf-16le", TextEncoding::kUtf16Le},
      {"utf-16be", TextEncoding::kUtf16Be},
      {"latin-1", TextEncoding::kLatin1},
      {"latin1", TextEncoding::kLatin1},
      {"iso-8859-1", TextEncoding::kLatin1},
      {"windows-1252", TextEncoding::kWindows1252},
      {"cp1252", TextEncoding::kWindows1252},
  };
  for (const auto& [known, encoding] : kNames) {
    if (absl::EqualsIgnoreCase({name.data(), name.size()}, {known.data(), known.size()})) {
      return encoding;
    }
  }
  return std::nullopt;
}

std::optional<ByteOrderMark> FindByteOrderMark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"sv)) return ByteOrderMark{TextEncoding::kUtf8, 3};
  if (text.starts_with("\xff\xfe"sv)) return ByteOrderMark{TextEncoding::kUtf16Le, 2};
  if (text.starts_with("\xfe\xff"sv)) return ByteOrderMark{TextEncoding::kUtf16Be, 2};
  return std::nullopt;
}

std::string_view FindWideEncoding(std::string_view text) {
  // The mark of UTF-32 in little endian begins with that of UTF-16.
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv)) return "UTF-16";
  const auto has_nuls = [text](std::string_view pattern) {
    for (size_t i = 0; i < pattern.size(); ++i) {
      if (i >= text.size() || (text[i] == '\0') != (pattern[i] == '0')) return false;
    }
    return true;
  };
  if (has_nuls("x000x000")) return "UTF-32LE";
  if (has_nuls("000x000x")) return "UTF-32BE";
  if (has_nuls("x0x0")) return "UTF-16LE";
  if (has_nuls("0x0x")) return "UTF-16BE";
  return "";
}

absl::Status WideEncodingError(std::string_view path, std::string_view encoding) {
  return absl::DataLossError(fmt::format(
      "{}: looks like {}; convert it to UTF-8 (iconv -f {} -t UTF-8)", path, encoding, encoding));
}

ConvertedText ConvertToUtf8(TextEncoding encoding, std::string_view text, char* to) {
  if (encoding == TextEncoding::kUtf16Le || encoding == TextEncoding::kUtf16Be) {
    return ConvertUtf16(encoding == TextEncoding::kUtf16Be, text, to);
  }
  char* out = to;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool high = encoding == TextEncoding::kWindows1252 && byte >= 0x80 && byte < 0xa0;
    out = Put(high ? kWindows1252High[byte - 0x80] : byte, out);
  }
  return {.read = text.size(), .written = static_cast<size_t>(out - to)};
}

std::optional<size_t> FindUnlikeWindows1252(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) continue;
    if (Contains(kUndefined, byte)) return i;
    if (byte < 0xc2) continue;
    const std::string_view character = text.substr(i, byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2);
    // Text in capitals has such pairs before a quote or a dash, but not with these two letters.
    const bool by_chance =
        character.size() == 2 && byte > 0xc3 && Contains(kInWords, character.back());
    if (!by_chance && character.size() > 1 && IsUtf8(character)) return i;
  }
  return std::nullopt;
}

bool LooksLikeWindows1252(std::string_view text) {
  if (FindUnlikeWindows1252(text)) return false;
  const auto at = [text](size_t i) -> unsigned char { return i < text.size() ? text[i] : ' '; };
  uint64_t likely = 0;
  uint64_t unlikely = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = at(i);
    const unsigned char before = at(i - 1);  // a blank for the first byte
    const unsigned char after = at(i + 1);
    if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r' && byte != '\f') return false;
    if (byte < 0x80) continue;
    if (IsHighLetter(byte)) {
      const bool in_word = absl::ascii_isalpha(before) || absl::ascii_isalpha(after);
      const bool is_word = !IsHighLetter(before) && !IsHighLetter(after);
      // UTF-8 that is cut or damaged begins with a capital, or goes on with a sign.
      const bool like_utf8 = (byte >= 0xc0 && byte <= 0xde && absl::ascii_islower(before)) ||
                             (byte >= 0xc0 && IsSign(after) && !Contains(kInWords, after));
      likely += in_word && !like_utf8;
      unlikely += like_utf8 || (!in_word && !is_word);
    } else if (Contains(kInWords, byte)) {
      likely += !IsHighLetter(before);
    } else {
      const bool inside = IsLetter(before) && IsLetter(after) && !Contains(kBetweenLetters, byte);
      (inside || IsHighLetter(before) ? unlikely : likely) += 1;
    }
  }
  return likely > 0 && unlikely * 20 <= likely;
}

}  // namespace shardfeed
