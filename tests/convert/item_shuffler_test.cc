#include "convert/items/item_shuffler.h"

#include <algorithm>
#include <numeric>

#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::TestFolder;

class ItemShufflerTest : public ::testing::Test {
 protected:
  // The numbers 0 to n-1 in the order in which they come back.
  std::vector<uint64_t> Shuffled(uint64_t n, uint64_t seed, size_t memory, size_t item_size = 20) {
    ItemShuffler shuffler(seed, folder_.path(), memory);
    for (uint64_t i = 0; i < n; ++i) {
      const std::string bytes(item_size + i % 7, static_cast<char>(i));
      EXPECT_OK(shuffler.Add({.bytes = bytes, .file = 3, .line = i}));
    }
    spilled_ = shuffler.spilled();
    std::vector<uint64_t> order;
    EXPECT_OK(shuffler.ForEach([&](const Item& item) {
      EXPECT_EQ(item.file, 3);
      EXPECT_EQ(item.bytes, std::string(item_size + item.line % 7, static_cast<char>(item.line)));
      order.push_back(item.line);
      return absl::OkStatus();
    }));
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
    return order;
  }

  TestFolder folder_;
  bool spilled_ = false;
};

TEST_F(ItemShufflerTest, GivesEachItemOnce) {
  std::vector<uint64_t> order = Shuffled(10000, 1, 64 << 20);
  EXPECT_FALSE(spilled_);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  std::vector<uint64_t> all(10000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}

TEST_F(ItemShufflerTest, OrderDoesNotDependOnMemory) {
  const std::vector<uint64_t> order = Shuffled(20000, 5, 64 << 20);
  for (size_t memory : {1 << 20, 100 << 10, 5 << 10, 1 << 10}) {
    EXPECT_EQ(Shuffled(20000, 5, memory), order) << memory;
    EXPECT_TRUE(spilled_);
  }
}

TEST_F(ItemShufflerTest, ItemsLargerThanTheMemory) {
  EXPECT_EQ(Shuffled(50, 5, 1000, 3000000).size(), 50);
}

TEST_F(ItemShufflerTest, SeedsGiveOrdersOfTheirOwn) {
  EXPECT_EQ(Shuffled(1000, 1, 1 << 20), Shuffled(1000, 1, 1 << 20));
  EXPECT_NE(Shuffled(1000, 1, 1 << 20), Shuffled(1000, 2, 1 << 20));
}

TEST_F(ItemShufflerTest, EveryPlaceIsEquallyLikely) {
  // Chi-square over where item 0 of 8 lands, in 8,000 seeds: 7 degrees of freedom, p = 0.0001 at
  // 29.9.
  std::vector<int> counts(8);
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    const std::vector<uint64_t> order = Shuffled(8, seed, 1 << 20);
    ++counts[std::find(order.begin(), order.end(), 0) - order.begin()];
  }
  double chi_square = 0;
  for (int n : counts) chi_square += (n - 1000.0) * (n - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 29.9);
}

TEST_F(ItemShufflerTest, NothingGivesNothing) { EXPECT_TRUE(Shuffled(0, 1, 1000).empty()); }

TEST_F(ItemShufflerTest, ErrorOfTheSinkEndsIt) {
  ItemShuffler shuffler(1, folder_.path(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_OK(shuffler.Add({.bytes = "0123456789"}));
  EXPECT_FAILS(shuffler.ForEach([](const Item&) { return absl::DataLossError("enough"); }),
               kDataLoss, "enough");
}

}  // namespace
}  // namespace shardfeed
