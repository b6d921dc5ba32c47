#include "convert/features/dates.h"

#include <string>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

int64_t Seconds(std::string_view text) {
  const std::optional<Date> date = ParseDate(text);
  EXPECT_TRUE(date.has_value()) << text;
  if (!date) return 0;
  EXPECT_EQ(date->microseconds % 1'000'000, 0) << text;
  return date->microseconds / 1'000'000;
}

TEST(DatesTest, ParsesDates) {
  EXPECT_EQ(Seconds("1970-01-01"), 0);
  EXPECT_EQ(Seconds("2024-02-29"), 1709164800);
  EXPECT_EQ(Seconds("1969-12-31"), -86400);
  EXPECT_EQ(Seconds("0001-01-01"), -62135596800);
  EXPECT_EQ(Seconds("9999-12-31T23:59:59Z"), 253402300799);
}

TEST(DatesTest, ParsesTimesAndZones) {
  for (const char* text :
       {"2024-01-31T13:45:00Z", "2024-01-31t13:45:00z", "2024-01-31 13:45",
        "2024-01-31T13:45:00.000", "2024-01-31T15:45:00+02:00", "2024-01-31T15:45:00+0200",
        "2024-01-31T15:45+02", "2024-01-31T08:15:00-05:30", "2024-02-01T00:45:00+11:00",
        "2024-01-31T13:45:00.000000000Z"}) {
    EXPECT_EQ(Seconds(text), 1706708700) << text;
  }
  EXPECT_TRUE(ParseDate("2024-01-31T13:45:00Z")->has_zone);
  EXPECT_TRUE(ParseDate("2024-01-31T13:45:00-00:00")->has_zone);
  EXPECT_FALSE(ParseDate("2024-01-31T13:45:00")->has_zone);
  EXPECT_FALSE(ParseDate("2024-01-31")->has_zone);
}

TEST(DatesTest, KeepsMicroseconds) {
  EXPECT_EQ(ParseDate("1970-01-01T00:00:01.5")->microseconds, 1'500'000);
  EXPECT_EQ(ParseDate("1970-01-01T00:00:00,000001Z")->microseconds, 1);
  EXPECT_EQ(ParseDate("1969-12-31T23:59:59.999999")->microseconds, -1);
  // More digits would be lost.
  EXPECT_FALSE(ParseDate("1970-01-01T00:00:00.0000001").has_value());
}

TEST(DatesTest, RefusesEverythingElse) {
  for (const char* text : {"",
                           "2024-01-3",
                           "2024-02-30",
                           "2023-02-29",
                           "2024-13-01",
                           "2024-00-10",
                           "0000-01-01",
                           "2024/01/31",
                           "20240131",
                           "31.01.2024",
                           "2024-01-31T",
                           "2024-01-31T13",
                           "2024-01-31T24:00:00",
                           "2024-01-31T13:60:00",
                           "2024-12-31T23:59:60Z",
                           "2024-01-31T13:45:00.",
                           "2024-01-31T13:45:00+",
                           "2024-01-31T13:45:00+24:00",
                           "2024-01-31T13:45:00Zx",
                           "2024-01-31x",
                           "2024-01-31Z",
                           "2024-01-31 13:45:00 UTC",
                           "+024-01-31",
                           "2024--1-31",
                           "12345-01-31"}) {
    EXPECT_FALSE(ParseDate(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace shardfeed
