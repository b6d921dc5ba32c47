#include "convert/features/column.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(KindOfTextTest, TakesOnlyCanonicalIntegersForInt64) {
  for (const char* text : {"0", "7", "-1", "10", "123456789012345678", "9223372036854775807",
                           "-9223372036854775808"}) {
    EXPECT_EQ(KindOfText(text), ColumnKind::kInt64) << text;
    EXPECT_EQ(ParseInt64(text), std::stoll(text)) << text;
  }
}

TEST(KindOfTextTest, LeavesWhatMayBeANameAsBytes) {
  for (const char* text : {"007",
                           "-01",
                           "00",
                           "+1",
                           "+1.5",
                           " 1",
                           "1 ",
                           "1,000",
                           "0x10",
                           "1_000",
                           "9223372036854775808",
                           "-9223372036854775809",
                           "12345678901234567890",
                           "00.5",
                           "01e5",
                           "-",
                           ".",
                           "-.",
                           "e5",
                           ".e5",
                           "1e",
                           "1e+",
                           "1e5.0",
                           "1.2.3",
                           "--1",
                           "1-",
                           "NaNs",
                           "+inf",
                           "nan(1)",
                           "infinit",
                           "true",
                           "NA",
                           "1f",
                           "1.0f",
                           "2024-01-01",
                           "12:30",
                           "\xd9\xa3"}) {
    EXPECT_EQ(KindOfText(text), ColumnKind::kBytes) << text;
    EXPECT_EQ(ParseInt64(text), std::nullopt) << text;
    EXPECT_EQ(ParseFloat(text), std::nullopt) << text;
  }
}

TEST(KindOfTextTest, TakesDecimalNumbersForFloat) {
  for (const char* text : {"1.5", "-0.25", ".5", "5.", "-.5", "1e5", "1E-5", "2.5e+3", "0e0", "-0",
                           "-0.0", "3.4028234e38", "1e-30", "0.000001", "1e-400"}) {
    EXPECT_EQ(KindOfText(text), ColumnKind::kFloat) << text;
    EXPECT_EQ(ParseInt64(text), std::nullopt) << text;
    EXPECT_EQ(ParseFloat(text), static_cast<float>(std::strtod(text, nullptr))) << text;
  }
  for (const char* text : {"nan", "NaN", "-NAN", "inf", "-Inf", "Infinity", "-INFINITY"}) {
    EXPECT_EQ(KindOfText(text), ColumnKind::kFloat) << text;
    ASSERT_TRUE(ParseFloat(text)) << text;
    EXPECT_FALSE(std::isfinite(*ParseFloat(text))) << text;
  }
}

TEST(KindOfTextTest, LeavesNumbersBeyondFloat32AsBytes) {
  for (const std::string& text : {std::string("3.5e38"), std::string("-1e39"), std::string("1e400"),
                                  std::string("1") + std::string(50, '0') + ".0"}) {
    EXPECT_EQ(KindOfText(text), ColumnKind::kBytes) << text;
    EXPECT_EQ(ParseFloat(text), std::nullopt) << text;
  }
}

TEST(KindOfTextTest, EmptyIsUnknown) { EXPECT_EQ(KindOfText(""), ColumnKind::kUnknown); }

TEST(ToFloatTest, RoundsAtTheEdgeOfTheRange) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(ToFloat(kLargest), kLargest);
  EXPECT_EQ(ToFloat(std::nextafter(0x1.ffffffp127, 0)), kLargest);
  EXPECT_EQ(ToFloat(0x1.ffffffp127), std::nullopt);
  EXPECT_EQ(ToFloat(-1e300), std::nullopt);
  EXPECT_EQ(ToFloat(HUGE_VAL), std::numeric_limits<float>::infinity());
  EXPECT_EQ(ToFloat(1e-300), 0.0f);
}

TEST(ParseFloatTest, RoundsAsACastFromDoubleDoes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 150);
    for (const char* format : {"%.17g", "%.3f", "%.6e"}) {
      char text[400];
      snprintf(text, sizeof(text), format, value);
      const double read = std::stod(text);
      if (KindOfText(text) == ColumnKind::kFloat) {
        EXPECT_EQ(ParseFloat(text), static_cast<float>(read)) << text;
      } else {
        // Only integers lack a point or an exponent here.
        EXPECT_EQ(std::string(text).find_first_of(".e"), std::string::npos) << text;
      }
    }
  }
}

TEST(TextColumnTest, WidensWithItsCells) {
  TextColumn column("c");
  EXPECT_TRUE(column.empty());
  EXPECT_EQ(column.kind(), ColumnKind::kBytes);
  column.Add("", {0, 2});
  EXPECT_TRUE(column.empty());
  column.Add("1", {0, 3});
  EXPECT_EQ(column.kind(), ColumnKind::kInt64);
  column.Add("1.5", {0, 4});
  column.Add("2", {0, 5});
  EXPECT_EQ(column.kind(), ColumnKind::kFloat);
  EXPECT_EQ(column.texts().count, 0);
  column.Add("n/a", {1, 6});
  column.Add("3", {1, 7});
  EXPECT_EQ(column.kind(), ColumnKind::kBytes);
  EXPECT_EQ(column.num_numbers(), 4);
  EXPECT_EQ(column.texts().count, 1);
  EXPECT_EQ(column.texts().first, "n/a");
  EXPECT_EQ(column.texts().place.file, 1);
  EXPECT_EQ(column.texts().place.line, 6);
}

TEST(TextColumnTest, CountsNumbersThatLoseDigits) {
  TextColumn column("c");
  for (const char* cell : {"1.5", "16777217", "1e-50", "16777216"}) column.Add(cell, {0, 1});
  EXPECT_EQ(column.kind(), ColumnKind::kFloat);
  EXPECT_EQ(column.lossy().count, 2);
  EXPECT_EQ(column.lossy().first, "16777217");
}

TEST(IsLossyAsFloatTest, ComparesAllDigitsOfTheText) {
  for (const char* text : {"9007199254740993", "-9007199254740993", "9223372036854775807",
                           "9007199254740993.0", "9.007199254740993e15", "+9007199254740993",
                           "1000000000000000000000000000001", "16777217", "1e-400"}) {
    EXPECT_TRUE(IsLossyAsFloat(std::string_view(text))) << text;
  }
  for (const char* text : {"9007199254740992", "18446744073709551616", "1e30", "1e20", "3.4e38",
                           "9007199254740992.5", "16777216", "0.1", "0e-400", "inf", "nan"}) {
    EXPECT_FALSE(IsLossyAsFloat(std::string_view(text))) << text;
  }
}

}  // namespace
}  // namespace shardfeed
