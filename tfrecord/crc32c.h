// CRC-32C (Castagnoli, RFC 3720 appendix B.4), and the masked form that TFRecord stores.

#ifndef SHARDFEED_TFRECORD_CRC32C_H_
#define SHARDFEED_TFRECORD_CRC32C_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardfeed {

// Returns the CRC-32C of A followed by B, where `crc` is that of A (0 if A is empty) and `bytes` is
// B, of any size. Uses ISA-L, which picks the processor's best instructions at run time.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view bytes);

inline uint32_t Crc32c(std::string_view bytes) { return ExtendCrc32c(0, bytes); }

// TFRecord rotates CRCs and adds an offset, because the CRC of data that contains CRCs itself is
// unreliable.
inline constexpr uint32_t MaskCrc(uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }
inline constexpr uint32_t UnmaskCrc(uint32_t masked) { return std::rotl(masked - 0xa282ead8u, 15); }

namespace internal {

// tables[k][b] is the effect of byte b, k bytes before the end.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables MakeCrcTables() {
  CrcTables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
    tables[0][b] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (uint32_t b = 0; b < 256; ++b) {
      const uint32_t previous = tables[k - 1][b];
      tables[k][b] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}

inline constexpr CrcTables kCrcTables = MakeCrcTables();

}  // namespace internal

// ExtendCrc32c for the eight bytes of a little-endian integer. Uses inline table look-ups, because
// a call through the library's dispatcher would cost more than the eight bytes.
inline uint32_t ExtendCrc32cU64(uint32_t crc, uint64_t value) {
  const internal::CrcTables& tables = internal::kCrcTables;
  value ^= static_cast<uint32_t>(~crc);
  uint32_t result = 0;
  for (int i = 0; i < 8; ++i) result ^= tables[7 - i][(value >> (8 * i)) & 0xff];
  return ~result;
}

inline uint32_t Crc32cU64(uint64_t value) { return ExtendCrc32cU64(0, value); }

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_CRC32C_H_
