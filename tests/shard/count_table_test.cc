#include "shard/statistics/count_table.h"

#include <map>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(CountTable, CountsAsAMapDoes) {
  std::mt19937_64 random(1);
  CountTable table;
  std::map<uint64_t, uint64_t> expected;
  for (int i = 0; i < 100'000; ++i) {
    // Keys that are close to each other, equal in their low halves, or 0.
    const uint64_t key = i % 3 == 0 ? random() % 500 : (random() % 500) << 32;
    const uint64_t count = 1 + random() % 3;
    EXPECT_EQ(table.Add(key, count), !expected.contains(key));
    expected[key] += count;
  }
  EXPECT_EQ(table.size(), expected.size());
  EXPECT_EQ(table.Sorted(), KeyCounts(expected.begin(), expected.end()));
}

TEST(CountTable, IsEmptyAtFirst) {
  const CountTable table;
  EXPECT_EQ(table.size(), 0);
  EXPECT_TRUE(table.Sorted().empty());
}

TEST(CountTable, CopiesAreIndependent) {
  CountTable table;
  table.Add(7);
  CountTable copy = table;
  copy.Add(7);
  copy.Add(8);
  EXPECT_EQ(table.Sorted(), (KeyCounts{{7, 1}}));
  EXPECT_EQ(copy.Sorted(), (KeyCounts{{7, 2}, {8, 1}}));
}

}  // namespace
}  // namespace shardfeed
