#include "cli/terminal/units.h"

#include "tests/testing/files.h"

namespace shardfeed {
namespace {

TEST(ParseSize, Units) {
  EXPECT_EQ(ParseSize("4096"), 4096);
  EXPECT_EQ(ParseSize("256KiB"), 256 << 10);
  EXPECT_EQ(ParseSize("1.5 GiB"), 1610612736u);
  EXPECT_EQ(ParseSize("100MB"), 100000000);
  EXPECT_EQ(ParseSize("2G"), uint64_t{2} << 30);
  EXPECT_EQ(ParseSize("3k"), 3072);
  EXPECT_EQ(ParseSize("10 B"), 10);
}

TEST(ParseSize, OthersAreNone) {
  for (const char* text : {"", "x", "-5", "5X", "5KiX", "nan", "inf", "1e30"}) {
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
  }
}

TEST(Format, SizesCountsAndTimes) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(1536), "1.5 KiB");
  EXPECT_EQ(FormatSize(200 << 20), "200 MiB");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatDuration(3.21), "3.2 s");
  EXPECT_EQ(FormatDuration(250), "4 min 10 s");
  EXPECT_EQ(FormatDuration(7260), "2 h 1 min");
}

std::string Ranges(std::string_view text, uint64_t total) {
  std::string found;
  const auto ranges = ParseRanges(text, total);
  EXPECT_OK(ranges);
  for (const Range& r : *ranges) {
    found += std::to_string(r.begin) + ":" + std::to_string(r.end) + " ";
  }
  return found;
}

TEST(ParseRanges, Forms) {
  EXPECT_EQ(Ranges("5", 10), "5:6 ");
  EXPECT_EQ(Ranges("9,0,2-4", 10), "9:10 0:1 2:5 ");
  EXPECT_EQ(Ranges("7-", 10), "7:10 ");
}

TEST(ParseRanges, WrongOnesAreRefused) {
  for (const char* text : {"", "a", "1,", "3-1", "1-2-3", "-5"}) {
    EXPECT_FAILS(ParseRanges(text, 10), kInvalidArgument, "expected a list of record numbers");
  }
  EXPECT_FAILS(ParseRanges("10", 10), kOutOfRange, "record 10 does not exist: there are 10");
  EXPECT_FAILS(ParseRanges("5-12", 10), kOutOfRange, "record 12 does not exist");
}

}  // namespace
}  // namespace shardfeed
