#include "decode/features/float_digits.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>

namespace shardfeed {

bool IsLossyAsFloat(double value) {
  constexpr double kFirst = 1 << 23;  // floats from here on are whole numbers
  const double stored = static_cast<float>(value);
  if (stored == 0) return value != 0;
  if (std::abs(value) < kFirst || !std::isfinite(stored) || stored == value) return false;
  // One digit before the point: [-]d.dddddde+dd.
  char text[32];
  const char* const end =
      std::to_chars(text, std::end(text), value, std::chars_format::scientific).ptr;
  const std::string_view digits(text, end - text);
  return std::ranges::count_if(digits.substr(0, digits.find('e')),
                               [](char c) { return '0' <= c && c <= '9'; }) > 7;
}

bool KeepsDigitsAsFloat(double value) {
  const auto stored = static_cast<float>(value);
  if (static_cast<double>(stored) == value || std::isnan(value)) return true;
  if (!std::isfinite(stored)) return false;
  char text[32];
  const char* const end = std::to_chars(text, std::end(text), stored).ptr;
  double read = 0;
  std::from_chars(text, end, read);
  return read == value;
}

}  // namespace shardfeed
