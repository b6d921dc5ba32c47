#include "io/budget.h"

#include <gtest/gtest.h>

namespace shardfeed {
namespace {

TEST(ByteBudget, CountsAndTellsOfRoom) {
  ByteBudget budget(100);
  int called = 0;
  budget.SetOnRoom([&called] { ++called; });
  EXPECT_TRUE(budget.TryReserve(60));
  EXPECT_FALSE(budget.TryReserve(41));
  EXPECT_TRUE(budget.TryReserve(40));
  EXPECT_FALSE(budget.TryReserve(UINT64_MAX));
  budget.ForceReserve(50);
  EXPECT_EQ(budget.used(), 150);
  EXPECT_FALSE(budget.TryReserve(1));
  budget.Release(100);
  EXPECT_EQ(called, 0);
  budget.NotifyOnRelease();
  budget.Release(10);
  budget.Release(10);
  EXPECT_EQ(called, 1);
  budget.NotifyOnRelease();
  budget.SetOnRoom(nullptr);
  budget.Release(10);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(budget.used(), 20);
  EXPECT_EQ(budget.peak(), 150);
}

}  // namespace
}  // namespace shardfeed
