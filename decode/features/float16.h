// Conversions between binary32 and the two 16-bit floating point types.

#ifndef SHARDFEED_DECODE_FEATURES_FLOAT16_H_
#define SHARDFEED_DECODE_FEATURES_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace shardfeed {

// ToFloat16 and ToBFloat16 round to nearest, ties to even, as processors' own instructions do.
// Values that are too large become infinite, and a NaN remains a NaN. Branch-free, so that loops
// over them are vectorized.

// IEEE 754 binary16: 1 sign, 5 exponent and 10 mantissa bits.
inline uint16_t ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  // Normal numbers, from 2^-14 on: the exponent has another bias, and the mantissa loses 13 bits. A
  // carry from the mantissa into the exponent is correct.
  const uint32_t odd = magnitude >> 13 & 1;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfff + odd) >> 13;
  // Below that, a unit is 2^-24, which is the last bit of numbers in [0.5, 1), so adding 0.5
  // rounds.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - (126u << 23);
  const uint32_t special =
      0x7c00 | (magnitude > 0x7f800000 ? 0x200 | (magnitude >> 13 & 0x3ff) : 0);
  uint32_t result = magnitude < (113u << 23) ? subnormal : normal;
  // 65520 is halfway between the largest number and the one that would follow.
  result = magnitude >= 0x477ff000 ? special : result;
  return static_cast<uint16_t>(sign | result);
}

// Exact. Branch-free as well.
inline float FromFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fff;
  // Moves exponent and mantissa into place; a multiplication corrects the bias and also normalizes
  // subnormal numbers.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t bits =
      magnitude >= 0x7c00 ? magnitude << 13 | 0x7f800000 : std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>(sign | bits);
}

// bfloat16 is the upper half of binary32.
inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FLOAT16_H_
