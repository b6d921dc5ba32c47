// One number for an input: equal inputs have equal ones, and others hardly ever do.

#ifndef SHARDFEED_CONVERT_INPUT_FINGERPRINT_H_
#define SHARDFEED_CONVERT_INPUT_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace shardfeed {

// A hash of 128 bits, by XXH3 (xxhash.com). Stable: the same on every machine and in every version.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

// Hashes a sequence of values; where one ends and the next begins counts. Not thread safe.
class Fingerprint {
 public:
  void Add(std::string_view bytes);
  void Add(uint64_t number);

  Hash128 value() const { return value_; }
  // 32 hexadecimal digits.
  std::string Hex() const;

 private:
  Hash128 value_;
};

// XXH64 with seed 0: what a record's split is chosen by, see docs/convert.md.
uint64_t KeyHash(std::string_view key);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_FINGERPRINT_H_
