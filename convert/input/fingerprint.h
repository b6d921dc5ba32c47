// Fingerprints of inputs: equal for equal inputs and almost certainly different for others.

#ifndef SHARDFEED_CONVERT_INPUT_FINGERPRINT_H_
#define SHARDFEED_CONVERT_INPUT_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace shardfeed {

// A 128-bit XXH3 hash (xxhash.com). The same on every machine and in every version.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

// Hashes a sequence of values, including the boundaries between them. Not thread-safe.
class Fingerprint {
 public:
  void Add(std::string_view bytes);
  void Add(uint64_t number);

  Hash128 value() const { return value_; }
  // Returns 32 hexadecimal digits.
  std::string Hex() const;

 private:
  Hash128 value_;
};

// XXH64 with seed 0, which decides a record's split: see docs/convert.md.
uint64_t KeyHash(std::string_view key);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_FINGERPRINT_H_
