// IEEE 754 binary16, for which C++20 has no type.

#ifndef SHARDFEED_BASE_HALF_H_
#define SHARDFEED_BASE_HALF_H_

#include <cmath>
#include <cstdint>

namespace shardfeed {

inline float HalfToFloat(uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const float fraction = static_cast<float>(half & 0x3ff);
  float value;
  if (exponent == 0x1f) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return half & 0x8000 ? -value : value;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_HALF_H_
