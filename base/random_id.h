// Names that no other process has.

#ifndef SHARDFEED_BASE_RANDOM_ID_H_
#define SHARDFEED_BASE_RANDOM_ID_H_

#include <cstddef>
#include <random>
#include <string>

namespace shardfeed {

// Returns random hexadecimal digits, eight for each word.
inline std::string RandomId(size_t words = 4) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string id;
  for (size_t i = 0; i < words; ++i) {
    unsigned word = random();
    for (int digit = 0; digit < 8; ++digit, word >>= 4) id += kDigits[word & 15];
  }
  return id;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_RANDOM_ID_H_
