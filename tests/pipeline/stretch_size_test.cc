#include "pipeline/stages/stretch_size.h"

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

constexpr uint64_t kManyBytes = 1 << 30;

TEST(StretchSizeTest, OneRowAtFirst) {
  StretchSize size;
  EXPECT_EQ(size.Rows(1000, true, kManyBytes), 1);
  EXPECT_EQ(size.row_ns(), 0);
  EXPECT_FALSE(size.InOneStretch(1, size.row_ns()));
}

TEST(StretchSizeTest, GrowsTwofoldWhileRowsAreCheap) {
  StretchSize size;
  for (size_t rows = 1; rows <= 64; rows *= 2) {
    size.Learn(rows, true, rows * 100, 0);
    EXPECT_EQ(size.Rows(1 << 20, true, kManyBytes), 2 * rows);
  }
  EXPECT_EQ(size.row_ns(), 100);
  EXPECT_TRUE(size.InOneStretch(128, 100));
  EXPECT_FALSE(size.InOneStretch(129, 100));
}

TEST(StretchSizeTest, TakesTheTimeOfAStretch) {
  StretchSize size;
  size.Learn(2000, true, 2000 * 100, 0);
  EXPECT_EQ(size.Rows(1'000'000, true, kManyBytes), kRangeNs / 100);
  // Stretches that are delivered separately may take longer: here twice the number taken.
  EXPECT_EQ(size.Rows(1'000'000, false, kManyBytes), 4000);
  EXPECT_TRUE(size.InOneStretch(1000, 100));
  EXPECT_FALSE(size.InOneStretch(1001, 100));
}

TEST(StretchSizeTest, StretchesOfABatchAreAlike) {
  StretchSize size;
  size.Learn(10, true, 10'000, 0);
  EXPECT_EQ(size.Rows(20, true, kManyBytes), 20);
  EXPECT_EQ(size.Rows(21, true, kManyBytes), 11);
  EXPECT_EQ(size.Rows(41, true, kManyBytes), 14);
}

TEST(StretchSizeTest, MakesAtMostWhatItMay) {
  StretchSize size;
  size.Learn(100, true, 100, 100 * 50);
  EXPECT_EQ(size.row_bytes(), 50);
  EXPECT_EQ(size.Rows(1000, true, 500), 10);
  // A row is always taken.
  EXPECT_EQ(size.Rows(1000, true, 1), 1);
  // Increases are adopted at once, decreases gradually.
  size.Learn(1, true, 1, 800);
  EXPECT_EQ(size.row_bytes(), 800);
  size.Learn(1, true, 1, 0);
  EXPECT_EQ(size.row_bytes(), 700);
}

TEST(StretchSizeTest, HalfOfRowsThatTookTooLong) {
  StretchSize size;
  size.Learn(100, true, 100, 0);
  EXPECT_EQ(size.Rows(1000, true, kManyBytes), 200);
  size.Learn(20, true, 2 * kRangeNs + 1, 0);
  EXPECT_EQ(size.Rows(1000, true, kManyBytes), 20);
  // An empty stretch changes nothing.
  const uint64_t row_ns = size.row_ns();
  size.Learn(0, true, 12345, 678);
  EXPECT_EQ(size.row_ns(), row_ns);
}

}  // namespace
}  // namespace shardfeed
