#include "decode/features/float_digits.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(IsLossyAsFloatTest, CountsWholeNumbersOfMoreThanSevenDigitsAndWhatBecomesZero) {
  for (double value : {16777217.0, -16777217.0, 1700000001.5, 1700000000.75, 9999999.9, 16777215.9,
                       123456789012.0, 1e-50, -1e-46}) {
    EXPECT_TRUE(IsLossyAsFloat(value)) << value;
  }
  for (double value :
       {0.0, -0.0, 1e-45, 16777216.0, 16777218.0, 31.95376472, 1e20, 1.2345e20, 3e38, 1e300}) {
    EXPECT_FALSE(IsLossyAsFloat(value)) << value;
  }
}

TEST(KeepsDigitsAsFloatTest, ComparesShortestDecimalForms) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double value : {0.0, -0.0, 0.1, -0.3, 16777216.0, 1e-45, 3.4e38, 1e20, 1.5, 31.953764,
                       kInfinity, std::nan("")}) {
    EXPECT_TRUE(KeepsDigitsAsFloat(value)) << value;
  }
  for (double value : {0.1 + 0.2, 1.0 / 3, 31.95376472, 16777217.0, 1e-50, 1e300}) {
    EXPECT_FALSE(KeepsDigitsAsFloat(value)) << value;
  }
}

}  // namespace
}  // namespace shardfeed
