// Random digits for names that no other process uses.

#ifndef SHARDFEED_BASE_RANDOM_DIGITS_H_
#define SHARDFEED_BASE_RANDOM_DIGITS_H_

#include <cstddef>
#include <random>
#include <string>

namespace shardfeed {

// Returns `count` random hexadecimal digits.
inline std::string RandomDigits(size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string digits;
  while (digits.size() < count) {
    unsigned word = random();
    for (int i = 0; i < 8 && digits.size() < count; ++i, word >>= 4) digits += kDigits[word & 15];
  }
  return digits;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_RANDOM_DIGITS_H_
