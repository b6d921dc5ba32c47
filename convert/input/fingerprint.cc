#include "convert/input/fingerprint.h"

#include "base/little_endian.h"
#include "fmt/format.h"
#include "xxhash.h"

namespace shardfeed {

void Fingerprint::Add(std::string_view bytes) {
  // Hash each value, then chain the hashes, so that boundaries between values count.
  const XXH128_hash_t one = XXH3_128bits(bytes.data(), bytes.size());
  char chained[32];
  StoreLittleEndian(value_.high, chained);
  StoreLittleEndian(value_.low, chained + 8);
  StoreLittleEndian<uint64_t>(one.high64, chained + 16);
  StoreLittleEndian<uint64_t>(one.low64, chained + 24);
  const XXH128_hash_t both = XXH3_128bits(chained, sizeof(chained));
  value_ = {both.high64, both.low64};
}

void Fingerprint::Add(uint64_t number) {
  char bytes[8];
  StoreLittleEndian(number, bytes);
  Add(std::string_view(bytes, sizeof(bytes)));
}

std::string Fingerprint::Hex() const {
  return fmt::format("{:016x}{:016x}", value_.high, value_.low);
}

uint64_t KeyHash(std::string_view key) { return XXH64(key.data(), key.size(), 0); }

}  // namespace shardfeed
