#include "io/slab.h"

#include <gtest/gtest.h>

#include <optional>

namespace shardfeed {
namespace {

TEST(Slab, TakesTheLowestPagesThatAreFree) {
  Slab slab;
  EXPECT_EQ(slab.Take(10), 0);
  EXPECT_EQ(slab.Take(100), 10);
  EXPECT_EQ(slab.Take(1), 110);
  slab.GiveBack(10, 100);
  EXPECT_EQ(slab.Take(101), 111);
  EXPECT_EQ(slab.Take(60), 10);
  EXPECT_EQ(slab.Take(40), 70);
  EXPECT_EQ(slab.Take(Slab::kBytes / Slab::kPage - 211), std::nullopt);
  EXPECT_EQ(slab.Take(Slab::kBytes / Slab::kPage - 212), 212);
  EXPECT_EQ(slab.Take(1), std::nullopt);
  slab.GiveBack(500, 64);
  EXPECT_EQ(slab.Take(65), std::nullopt);
  EXPECT_EQ(slab.Take(64), 500);
  EXPECT_FALSE(slab.empty());
  slab.GiveBack(0, Slab::kBytes / Slab::kPage);
  EXPECT_TRUE(slab.empty());
  EXPECT_EQ(slab.Take(Slab::kBytes / Slab::kPage), 0);
}

}  // namespace
}  // namespace shardfeed
