#include "convert/features/column.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "absl/strings/charconv.h"
#include "decode/features/float_digits.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns the offset of the first character at or after `at` that is not a digit.
size_t SkipDigits(std::string_view text, size_t at) {
  while (at < text.size() && IsDigit(text[at])) ++at;
  return at;
}

// `word` must be in lower case.
bool EqualsIgnoringCase(std::string_view text, std::string_view word) {
  return text.size() == word.size() &&
         std::equal(text.begin(), text.end(), word.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; });
}

// What the spelling of a text alone tells.
struct Spelling {
  ColumnKind kind;
  bool far = false;    // the number may be outside the range of float
  bool risky = false;  // it may be at least 2^23, or become 0 as a float
};

Spelling SpellingOf(std::string_view text) {
  if (text.empty()) return {ColumnKind::kUnknown};
  const size_t begin = text[0] == '-' ? 1 : 0;
  const size_t whole_end = SkipDigits(text, begin);
  const size_t num_whole = whole_end - begin;
  // Without an exponent, it takes 45 digits after the point to become 0.
  const bool risky = num_whole >= 8 || text.size() > 45;
  if (num_whole > 1 && text[begin] == '0') return {ColumnKind::kBytes};
  if (whole_end == text.size()) {
    if (num_whole == 0) return {ColumnKind::kBytes};
    if (begin == 1 && text[1] == '0') return {ColumnKind::kFloat};  // -0
    if (num_whole < 19) return {ColumnKind::kInt64, false, risky};
    // An integer beyond int64 is more likely a name than a number, and float32 would lose digits.
    int64_t value;
    const char* end = text.data() + text.size();
    const bool fits = std::from_chars(text.data(), end, value).ec == std::errc();
    return {fits ? ColumnKind::kInt64 : ColumnKind::kBytes, false, risky};
  }
  size_t at = whole_end;
  size_t num_digits = num_whole;
  if (text[at] == '.') {
    const size_t fraction_end = SkipDigits(text, at + 1);
    num_digits += fraction_end - at - 1;
    at = fraction_end;
  }
  if (num_digits == 0) {
    const std::string_view word = text.substr(begin);
    const bool known = EqualsIgnoringCase(word, "nan") || EqualsIgnoringCase(word, "inf") ||
                       EqualsIgnoringCase(word, "infinity");
    return {known ? ColumnKind::kFloat : ColumnKind::kBytes};
  }
  if (at == text.size()) return {ColumnKind::kFloat, num_whole > 37, risky || num_whole == 7};
  if ((text[at] | 0x20) != 'e') return {ColumnKind::kBytes};
  ++at;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  const size_t exponent_end = SkipDigits(text, at);
  if (exponent_end == at || exponent_end != text.size()) return {ColumnKind::kBytes};
  return {ColumnKind::kFloat, /*far=*/true, /*risky=*/true};
}

}  // namespace

std::string_view ColumnKindName(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kUnknown:
      return "unknown";
    case ColumnKind::kInt64:
      return "int64";
    case ColumnKind::kFloat:
      return "float";
    case ColumnKind::kBytes:
      return "bytes";
  }
  return "";
}

std::string_view DtypeOf(ColumnKind kind) {
  return kind == ColumnKind::kFloat ? "float32" : ColumnKindName(kind);
}

ColumnKind MergedKind(ColumnKind a, ColumnKind b) {
  // The enumerators are in increasing order of what they can hold.
  return std::max(a, b);
}

ColumnKind KindOfText(std::string_view text) {
  bool risky;
  return KindOfText(text, &risky);
}

ColumnKind KindOfText(std::string_view text, bool* risky) {
  const Spelling spelling = SpellingOf(text);
  *risky = spelling.risky;
  return spelling.far && !ToFloat(ParseDouble(text)) ? ColumnKind::kBytes : spelling.kind;
}

std::optional<int64_t> ParseInt64(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.starts_with('0') && text != "0") return std::nullopt;
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<float> ParseFloat(std::string_view text) {
  const ColumnKind kind = SpellingOf(text).kind;
  if (kind != ColumnKind::kInt64 && kind != ColumnKind::kFloat) return std::nullopt;
  return ToFloat(ParseDouble(text));
}

double ParseDouble(std::string_view text) {
  double value = 0;
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    // std::from_chars does not set the value; Abseil's, which is slower, returns infinity or zero.
    absl::from_chars(text.data(), text.data() + text.size(), value);
  }
  return value;
}

std::optional<int64_t> ParseAnyInt64(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<float> ParseAnyFloat(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc::invalid_argument || result.ptr != end) return std::nullopt;
  return ToFloat(ParseDouble(text));
}

bool IsLossyAsFloat(std::string_view number) {
  const double value = ParseDouble(number);
  const size_t e = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, e);
  if (value == 0) return mantissa.find_first_of("123456789") != mantissa.npos;
  if (IsLossyAsFloat(value)) return true;
  constexpr double kAllWhole = uint64_t{1} << 53;  // doubles hold all smaller whole numbers
  if (std::abs(value) < kAllWhole || !ToFloat(value) || !std::isfinite(value)) return false;
  // The double may have lost digits before the float does.
  std::string digits;
  int64_t point = 0;
  for (const char c : mantissa) {
    if (c == '.') point = -static_cast<int64_t>(mantissa.size() - mantissa.find('.') - 1);
    if (c < '0' || c > '9' || (c == '0' && digits.empty())) continue;
    digits += c;
  }
  int64_t exponent = 0;
  if (e != number.npos) {
    std::string_view text = number.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    std::from_chars(text.data(), text.data() + text.size(), exponent);
  }
  const int64_t whole = static_cast<int64_t>(digits.size()) + point + exponent;
  digits.erase(digits.find_last_not_of('0') + 1);
  constexpr size_t kDigitsOfFloat = 7;
  if (digits.size() <= kDigitsOfFloat) return false;
  digits.resize(static_cast<size_t>(std::max<int64_t>(whole, 0)), '0');
  return digits != fmt::format("{:.0f}", std::abs(static_cast<double>(*ToFloat(value))));
}

std::optional<bool> ParseBool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

void Cells::Keep(std::string_view cell, Place at) {
  constexpr size_t kShown = 80;
  first = cell.substr(0, kShown);
  place = at;
}

std::string NoteOfLossyFloats(std::string_view column, const Cells& lossy, std::string_view first) {
  return fmt::format(
      "{}: {} digits because floats have 32 bits, the first is {}", column,
      lossy.count == 1 ? "1 value loses" : fmt::format("{} values lose", lossy.count), first);
}

void TextColumn::Add(std::string_view cell, Place place) {
  bool risky;
  const ColumnKind kind = KindOfText(cell, &risky);
  if (kind == ColumnKind::kUnknown) return;
  kind_ = MergedKind(kind_, kind);
  if (kind == ColumnKind::kBytes) {
    texts_.Add(cell, place);
  } else {
    ++num_numbers_;
    if (risky && IsLossyAsFloat(cell)) lossy_.Add(cell, place);
  }
}

}  // namespace shardfeed
