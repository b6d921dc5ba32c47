#include "decode/features/float16.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

// The value of a positive number of either type, by definition.
double Value(uint16_t bits, int mantissa_bits, int bias) {
  const int exponent = bits >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// The nearest number, found among the two between which the value lies.
uint16_t Nearest(double value, int mantissa_bits, int bias, uint16_t infinity) {
  uint16_t low = 0;
  uint16_t high = infinity;  // counts as the number that would follow the largest one
  while (high - low > 1) {
    const uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (Value(middle, mantissa_bits, bias) <= value ? low : high) = middle;
  }
  const double below = value - Value(low, mantissa_bits, bias);
  const double above = Value(high, mantissa_bits, bias) - value;
  if (below == above) return low % 2 == 0 ? low : high;
  return below < above ? low : high;
}

void CheckBoth(uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  const double magnitude = std::fabs(value);
  const auto sign = static_cast<uint16_t>(bits >> 31 << 15);
  ASSERT_EQ(ToFloat16(value), sign | Nearest(magnitude, 10, 15, 0x7c00)) << value;
  ASSERT_EQ(ToBFloat16(value), sign | Nearest(magnitude, 7, 127, 0x7f80)) << value;
}

TEST(Float16, RoundsToTheNearestTiesToEven) {
  std::mt19937 random(3);
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    if (std::isfinite(std::bit_cast<float>(bits))) CheckBoth(bits);
    // Around the range of float16.
    const float moderate = std::ldexp(std::bit_cast<float>((bits & 0x807fffff) | 0x3f800000),
                                      static_cast<int>(random() % 45) - 28);
    CheckBoth(std::bit_cast<uint32_t>(moderate));
  }
}

TEST(Float16, EveryNumberBecomesAFloat) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto number = static_cast<uint16_t>(bits);
    const auto negative = static_cast<uint16_t>(bits | 0x8000);
    ASSERT_EQ(FromFloat16(number), Value(number, 10, 15));
    ASSERT_EQ(FromFloat16(negative), -Value(number, 10, 15));
    ASSERT_TRUE(std::signbit(FromFloat16(negative)));
  }
  EXPECT_EQ(FromFloat16(0x7c00), HUGE_VALF);
  EXPECT_EQ(FromFloat16(0xfc00), -HUGE_VALF);
  for (uint32_t bits = 0x7c01; bits < 0x8000; ++bits) {
    ASSERT_TRUE(std::isnan(FromFloat16(static_cast<uint16_t>(bits))));
  }
}

TEST(Float16, EveryNumberAndWhatLiesBetweenThem) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = Value(static_cast<uint16_t>(bits), 10, 15);
    const double high = Value(static_cast<uint16_t>(bits + 1), 10, 15);
    for (double value : {low, (low + high) / 2}) {
      const auto middle = std::bit_cast<uint32_t>(static_cast<float>(value));
      for (uint32_t near = middle == 0 ? 0 : middle - 1; near <= middle + 1; ++near) {
        CheckBoth(near);
        CheckBoth(near | 0x80000000);
      }
    }
  }
}

TEST(Float16, LargeValuesBecomeInfinite) {
  EXPECT_EQ(ToFloat16(65504), 0x7bff);
  EXPECT_EQ(ToFloat16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(ToFloat16(65520), 0x7c00);
  EXPECT_EQ(ToFloat16(-1e30f), 0xfc00);
  EXPECT_EQ(ToFloat16(INFINITY), 0x7c00);
  EXPECT_EQ(ToBFloat16(3.4028235e38f), 0x7f80);
  EXPECT_EQ(ToBFloat16(-INFINITY), 0xff80);
}

TEST(Float16, NansStayNans) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc00001u}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_GT(ToFloat16(nan) & 0x7fff, 0x7c00);
    EXPECT_EQ(ToFloat16(nan) >> 15, bits >> 31);
    EXPECT_GT(ToBFloat16(nan) & 0x7fff, 0x7f80);
    EXPECT_EQ(ToBFloat16(nan) >> 15, bits >> 31);
  }
}

}  // namespace
}  // namespace shardfeed
