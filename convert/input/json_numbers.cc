#include "convert/input/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

namespace shardfeed {
namespace {

constexpr std::string_view kNonFinite[] = {"NaN", "Infinity", "-Infinity"};
constexpr std::string_view kNumberCharacters = "+-.0123456789Ee";

// Returns the offset after the string that opens at `at`; the end if it does not close.
size_t AfterString(std::string_view text, size_t at) {
  while ((at = text.find_first_of("\"\\", at + 1)) < text.size()) {
    if (text[at] == '"') return at + 1;
    ++at;
  }
  return text.size();
}

// Returns the size of the non-finite number at the start of `text`, or 0.
size_t NonFiniteSize(std::string_view text) {
  for (std::string_view name : kNonFinite) {
    if (text.starts_with(name)) return name.size();
  }
  return 0;
}

// Removes digits from the start of `text`, and returns whether there were any.
bool TakeDigits(std::string_view* text) {
  const size_t n = std::min(text->find_first_not_of("0123456789"), text->size());
  text->remove_prefix(n);
  return n > 0;
}

// Whether a number, which the parser would have to accept, is to be replaced.
bool IsReplaced(std::string_view token, bool all) {
  std::string_view rest = token;
  if (rest.starts_with('-')) rest.remove_prefix(1);
  const bool leading_zero = rest.starts_with('0');
  std::string_view digits = rest;
  if (!TakeDigits(&rest)) return false;
  digits.remove_suffix(rest.size());
  if (leading_zero && digits.size() > 1) return false;
  if (rest.empty()) {
    if (token == "-0") return all;
    if (digits.size() < 19) return false;
    int64_t small;
    uint64_t large;
    const char* const end = token.data() + token.size();
    return std::from_chars(token.data(), end, small).ec != std::errc() &&
           std::from_chars(token.data(), end, large).ec != std::errc();
  }
  if (!all) return false;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (!TakeDigits(&rest)) return false;
  }
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest.remove_prefix(1);
    if (rest.starts_with('+') || rest.starts_with('-')) rest.remove_prefix(1);
    if (!TakeDigits(&rest)) return false;
  }
  return rest.empty();
}

}  // namespace

void ReplaceNumbers(std::string_view text, bool all, std::string_view placeholder, std::string* out,
                    std::vector<std::string_view>* replaced) {
  out->clear();
  size_t copied = 0;
  const auto replace = [&](size_t at, size_t size) {
    out->append(text, copied, at - copied);
    // The blanks keep it apart from what may precede or follow it by mistake.
    out->append(" ").append(placeholder).append(" ");
    replaced->push_back(text.substr(at, size));
    copied = at + size;
  };
  constexpr std::string_view kStarts = "\"-0123456789NI";
  for (size_t at = 0; (at = text.find_first_of(kStarts, at)) < text.size();) {
    if (text[at] == '"') {
      at = AfterString(text, at);
      continue;
    }
    if (const size_t size = NonFiniteSize(text.substr(at)); size > 0) {
      replace(at, size);
      at += size;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of(kNumberCharacters, at + 1), text.size());
    if (IsReplaced(text.substr(at, end - at), all)) replace(at, end - at);
    at = end;
  }
  out->append(text, copied);
}

bool MayUnderflow(std::string_view text) {
  // Such a number has an exponent of three digits, or far more than a hundred zeros in a row.
  const auto is_digit = [text](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  for (size_t at = 1; (at = text.find('-', at)) < text.size(); ++at) {
    if ((text[at - 1] | 0x20) == 'e' && is_digit(at + 1) && is_digit(at + 2) && is_digit(at + 3)) {
      return true;
    }
  }
  constexpr size_t kStride = 64;
  constexpr std::string_view kZeros = "0000000000000000";
  for (size_t at = kStride; at < text.size(); at += kStride) {
    if (text[at] == '0' && text.substr(at).starts_with(kZeros)) return true;
  }
  return false;
}

std::string WithoutNonFinite(std::string_view text) {
  std::string copy(text);
  for (size_t at = 0; (at = text.find_first_of("\"NI", at)) < text.size();) {
    if (text[at] == '"') {
      at = AfterString(text, at);
      continue;
    }
    const size_t size = std::max<size_t>(1, NonFiniteSize(text.substr(at)));
    if (size > 1) copy.replace(at, size, std::string("0.000000").substr(0, size));
    at += size;
  }
  return copy;
}

}  // namespace shardfeed
