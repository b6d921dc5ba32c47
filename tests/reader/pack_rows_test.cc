// Tests how the sequences of a window fill rows, and in which order the rows come.
#include "reader/plan/pack_rows.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(PackLanes, TakesARowFromEachLaneInTurn) {
  std::mt19937_64 random(1);
  std::vector<std::vector<PackedSequence>> lanes(16);
  for (uint32_t i = 0; i < 16 * 256; ++i) {
    lanes[i % 16].push_back({{i, 0, 1 + random() % 300}, i});
  }
  for (PackSpec::How how :
       {PackSpec::How::kBestFit, PackSpec::How::kFirstFit, PackSpec::How::kConcatenate}) {
    const PackedWindow window = PackLanes(lanes, {.length = 1000, .how = how}, 0, 0);
    uint64_t own = 0;
    for (size_t row = 0; row < window.rows(); ++row) {
      uint32_t last = 0;
      for (const PackedPart& part : window.row(row)) {
        own += part.item % 16 == row % 16;
        EXPECT_GE(part.item, last) << "not in the order of positions";
        last = part.item;
      }
    }
    EXPECT_GT(own, window.parts.size() * 8 / 10);
  }
}

TEST(PackLanes, CutsSequencesOnlyWhereARowEnds) {
  std::mt19937_64 random(2);
  std::vector<std::vector<PackedSequence>> lanes(8);
  for (uint32_t i = 0; i < 2000; ++i) lanes[i % 8].push_back({{i, 0, 1 + random() % 9}, i});
  const PackedWindow window =
      PackLanes(lanes, {.length = 7, .how = PackSpec::How::kConcatenate}, 0, 0);
  for (size_t row = 0; row < window.rows(); ++row) {
    const auto parts = window.row(row);
    for (size_t i = 1; i < parts.size(); ++i) {
      EXPECT_FALSE(parts[i].item == parts[i - 1].item &&
                   parts[i].begin == parts[i - 1].begin + parts[i - 1].count);
    }
  }
}

TEST(PackLanes, MakesNoRowOfNothing) {
  EXPECT_EQ(PackLanes({{}, {}}, {.length = 10}, 0, 0).rows(), 0);
  EXPECT_EQ(PackLanes({}, {.length = 10, .how = PackSpec::How::kConcatenate}, 0, 0).rows(), 0);
  EXPECT_EQ(PackLanes({{}}, {.length = 10, .how = PackSpec::How::kFirstFit}, 0, 0).rows(), 0);
  EXPECT_EQ(PackLanes({}, {.length = 10, .cost = PackSpec::Cost::kQuadratic}, 0, 0).rows(), 0);
}

TEST(PackLanes, PutsASequenceIntoTheFirstRowWithRoom) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::vector<PackedSequence>> lanes(1);
    std::vector<std::vector<uint64_t>> expected;  // items of each row
    std::vector<uint64_t> used;
    const uint64_t longest = 1 + random() % 100;
    for (uint32_t i = 0; i < random() % 600; ++i) {
      const uint64_t count = 1 + random() % longest;
      lanes[0].push_back({{i, 0, count}, i});
      size_t row = 0;
      while (row < used.size() && used[row] + count > 100) ++row;
      if (row == used.size()) {
        used.push_back(0);
        expected.emplace_back();
      }
      used[row] += count;
      expected[row].push_back(i);
    }
    const PackedWindow window =
        PackLanes(lanes, {.length = 100, .how = PackSpec::How::kFirstFit}, 0, 0);
    ASSERT_EQ(window.rows(), expected.size());
    for (size_t row = 0; row < window.rows(); ++row) {
      std::vector<uint64_t> items;
      for (const PackedPart& part : window.row(row)) items.push_back(part.item);
      EXPECT_EQ(items, expected[row]);
    }
  }
}

TEST(PackLanes, MakesARowOfEachElement) {
  std::mt19937_64 random(6);
  std::vector<std::vector<PackedSequence>> lanes(4);
  std::set<std::pair<uint64_t, uint64_t>> left;
  for (uint32_t i = 0; i < 60; ++i) {
    // Lane 1 has longer episodes than the others.
    const PackedPart part = {i, random() % 3, 1 + random() % (i % 4 == 1 ? 50 : 20)};
    lanes[i % 4].push_back({part, i});
    for (uint64_t k = 0; k < part.count; ++k) left.insert({i, part.begin + k});
  }
  const PackSpec spec = {.length = 1, .how = PackSpec::How::kSteps};
  const PackedWindow window = PackLanes(lanes, spec, 5, 0);
  ASSERT_EQ(window.rows(), left.size());
  size_t own = 0;
  for (size_t row = 0; row < window.rows(); ++row) {
    ASSERT_EQ(window.row(row).size(), 1);
    const PackedPart& part = window.row(row)[0];
    EXPECT_EQ(part.count, 1);
    EXPECT_EQ(left.erase({part.item, part.begin}), 1);
    own += part.item % 4 == row % 4;
  }
  EXPECT_GT(own, window.rows() * 3 / 4);
  EXPECT_NE(PackLanes(lanes, spec, 6, 0).parts, window.parts);
  // Without a key, those of a lane stay in their order.
  const PackedWindow ordered = PackLanes({lanes[0]}, spec, 0, 0);
  for (size_t row = 1; row < ordered.rows(); ++row) {
    const PackedPart& before = ordered.parts[row - 1];
    const PackedPart& part = ordered.parts[row];
    EXPECT_LT(std::pair(before.item, before.begin), std::pair(part.item, part.begin));
  }
}

std::vector<double> CostsOf(const PackedWindow& window) {
  std::vector<double> costs(window.rows());
  for (size_t row = 0; row < window.rows(); ++row) {
    for (const PackedPart& part : window.row(row)) {
      costs[row] += static_cast<double>(part.count * part.count);
    }
  }
  return costs;
}

// The mean over all steps of what the rank with the greatest cost has, relative to the mean of the
// ranks.
double Imbalance(const std::vector<double>& costs, size_t world, size_t batch) {
  double sum = 0;
  size_t steps = 0;
  for (; (steps + 1) * world * batch <= costs.size(); ++steps) {
    std::vector<double> of_rank(world);
    for (size_t i = 0; i < world * batch; ++i)
      of_rank[i % world] += costs[steps * world * batch + i];
    const double most = *std::max_element(of_rank.begin(), of_rank.end());
    sum += most * static_cast<double>(world) / std::accumulate(of_rank.begin(), of_rank.end(), 0.0);
  }
  return sum / static_cast<double>(steps);
}

// `count` sequences of lengths as documents have them.
std::vector<std::vector<PackedSequence>> Documents(size_t lanes, uint32_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<> lengths(5.5, 1.2);
  std::vector<std::vector<PackedSequence>> sequences(lanes);
  for (uint32_t i = 0; i < count; ++i) {
    const auto length = static_cast<uint64_t>(std::clamp(lengths(random), 1.0, 4096.0));
    sequences[i % lanes].push_back({{i, 0, length}, i});
  }
  return sequences;
}

TEST(PackLanes, GivesRanksEqualShareOfAttention) {
  for (size_t num_lanes : {1, 64}) {
    constexpr uint32_t kSequences = 1 << 17;
    const auto lanes = Documents(num_lanes, kSequences, 5);
    const PackedWindow linear = PackLanes(lanes, {.length = 4096}, 7, 0);
    const PackSpec spec = {.length = 4096, .cost = PackSpec::Cost::kQuadratic};
    const PackedWindow window = PackLanes(lanes, spec, 7, 0);
    EXPECT_EQ(window.rows(), linear.rows());
    std::set<uint64_t> items;
    for (const PackedPart& part : window.parts) EXPECT_TRUE(items.insert(part.item).second);
    EXPECT_EQ(items.size(), kSequences);
    const std::vector<double> costs = CostsOf(window);
    for (size_t world : {8, 64}) {
      for (size_t batch : {1, 8}) {
        EXPECT_LT(Imbalance(costs, world, batch), 1.02);
        EXPECT_GT(Imbalance(CostsOf(linear), world, batch), 1.2);
      }
    }
    // Cheap and expensive rows are spread over the window.
    EXPECT_NE(window.parts, PackLanes(lanes, spec, 8, 0).parts);
    const auto middle = costs.begin() + costs.size() / 2;
    const double first = std::accumulate(costs.begin(), middle, 0.0);
    EXPECT_NEAR(first / std::accumulate(middle, costs.end(), first), 0.5, 0.1);
  }
}

// Few windows have a multiple of 64 rows, so most begin and end within a step of 64 ranks.
TEST(PackLanes, GivesRanksEqualShareOfAttentionInAllWindows) {
  struct Case {
    size_t lanes;
    size_t world;
    uint32_t window;
    size_t batch;
    double most;
  };
  for (const Case& of : std::vector<Case>{{1, 64, 1 << 17, 1, 1.02},
                                          {64, 64, 1 << 17, 1, 1.02},
                                          {64, 64, 1 << 17, 8, 1.01},
                                          {48, 48, 1 << 17, 1, 1.02},
                                          {64, 8, 1 << 17, 1, 1.02},
                                          {64, 64, 1 << 14, 1, 1.1},
                                          {64, 64, 1 << 14, 8, 1.05}}) {
    std::vector<double> costs;
    int unaligned = 0;
    for (uint64_t w = 0; w < 6; ++w) {
      const PackSpec spec = {.length = 4096, .cost = PackSpec::Cost::kQuadratic};
      const PackedWindow window =
          PackLanes(Documents(of.lanes, of.window, 10 + w), spec, 7 + w, costs.size());
      unaligned += window.rows() % of.world != 0;
      const std::vector<double> more = CostsOf(window);
      costs.insert(costs.end(), more.begin(), more.end());
    }
    EXPECT_GT(unaligned, 4);
    EXPECT_LT(Imbalance(costs, of.world, of.batch), of.most)
        << of.lanes << " lanes, " << of.world << " ranks, window " << of.window;
  }
}

// The rows of small windows complete a group together.
TEST(PackLanes, BeginsAtAnyRowOfAGroup) {
  for (const auto cost : {PackSpec::Cost::kLinear, PackSpec::Cost::kQuadratic}) {
    const PackSpec spec = {.length = 4096, .cost = cost};
    for (uint32_t count : {0, 5, 400, 3000}) {
      const auto lanes = Documents(8, count, 3);
      const PackedWindow first = PackLanes(lanes, spec, 7, 0);
      for (uint64_t before : {1, 17, 63, 64, 1000003}) {
        const PackedWindow window = PackLanes(lanes, spec, 7, before);
        ASSERT_EQ(window.rows(), first.rows());
        ASSERT_EQ(window.parts.size(), first.parts.size());
        std::set<uint64_t> items;
        size_t own = 0;
        for (size_t row = 0; row < window.rows(); ++row) {
          for (const PackedPart& part : window.row(row)) {
            items.insert(part.item);
            own += part.item % 8 == (before + row) % 8;
          }
        }
        EXPECT_EQ(items.size(), count);
        if (count >= 3000) {
          EXPECT_GT(own, count / 3);
        }
        EXPECT_EQ(PackLanes(lanes, spec, 7, before % RowGroup(8)).parts, window.parts);
      }
    }
  }
}

TEST(PackLanes, MixesLongAndShortSequencesAsTheOrderDoes) {
  std::mt19937_64 random(3);
  // Sums of the lengths, and numbers, of the sequences of the first tenth of the rows and of all.
  uint64_t first_length = 0;
  uint64_t first_count = 0;
  uint64_t length = 0;
  uint64_t count = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<PackedSequence>> lanes(1);
    for (uint32_t i = 0; i < 1024; ++i) lanes[0].push_back({{i, 0, 1 + random() % 300}, i});
    const PackedWindow window = PackLanes(std::move(lanes), {.length = 1000}, 0, 0);
    for (size_t i = 0; i < window.parts.size(); ++i) {
      length += window.parts[i].count;
      ++count;
      if (i >= window.begins[window.rows() / 10]) continue;
      first_length += window.parts[i].count;
      ++first_count;
    }
  }
  const double mean = static_cast<double>(length) / static_cast<double>(count);
  EXPECT_NEAR(static_cast<double>(first_length) / static_cast<double>(first_count), mean,
              mean / 10);
}

}  // namespace
}  // namespace shardfeed
