#include "reader/order/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "reader/order/divider.h"
#include "reader/order/permutation.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using absl::StatusCode::kInvalidArgument;

std::vector<uint64_t> ShardBegins(const std::vector<uint64_t>& records) {
  std::vector<uint64_t> begins = {0};
  for (uint64_t n : records) begins.push_back(begins.back() + n);
  return begins;
}

std::shared_ptr<const Order> MakeOrder(const OrderSpec& spec, const std::vector<uint64_t>& records,
                                       uint64_t mean_bytes = 1000) {
  auto order = Order::Make(spec, ShardBegins(records), mean_bytes);
  EXPECT_OK(order);
  return *order;
}

OrderSpec Shuffle(uint64_t seed, uint64_t window, uint64_t chunk, uint64_t lanes) {
  OrderSpec spec;
  spec.kind = OrderSpec::Kind::kShuffle;
  spec.seed = seed;
  spec.window = window;
  spec.chunk = chunk;
  spec.lanes = lanes;
  return spec;
}

OrderSpec Interleave(uint64_t cycle, uint64_t block) {
  OrderSpec spec;
  spec.kind = OrderSpec::Kind::kInterleave;
  spec.cycle = cycle;
  spec.block = block;
  return spec;
}

std::vector<uint64_t> Sequence(const Order& order, uint64_t epoch = 0) {
  std::vector<uint64_t> items(order.size());
  order.Fill(epoch, 0, 1, absl::MakeSpan(items));
  return items;
}

TEST(Divider, DividesAsTheProcessorDoes) {
  for (uint64_t d : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{64}, uint64_t{1'000'003},
                     uint64_t{1} << 40, UINT64_MAX}) {
    const Divider divider(d);
    for (uint64_t n : {uint64_t{0}, uint64_t{1}, d - 1, d, d + 1, 2 * d - 1, uint64_t{123456789012},
                       UINT64_MAX - 1, UINT64_MAX}) {
      EXPECT_EQ(divider.Divide(n).quotient, n / d);
      EXPECT_EQ(divider.Divide(n).remainder, n % d);
    }
  }
}

// ---- Permutation

TEST(Permutation, IsABijectionThatInvertUndoes) {
  for (uint64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 10, 31, 64, 100, 1000, 1023, 4097}) {
    const Permutation permutation(n);
    for (uint64_t key : {0, 1, 12345}) {
      std::vector<bool> seen(n);
      for (uint64_t x = 0; x < n; ++x) {
        const uint64_t y = permutation.Apply(key, x);
        ASSERT_LT(y, n);
        EXPECT_FALSE(seen[y]);
        seen[y] = true;
        EXPECT_EQ(permutation.Invert(key, y), x);
      }
    }
  }
}

TEST(Permutation, HandlesLargeDomains) {
  for (uint64_t n : {uint64_t{1} << 32, (uint64_t{1} << 40) - 1, uint64_t{1'000'000'007}}) {
    const Permutation permutation(n);
    for (uint64_t x : {uint64_t{0}, n / 3, n / 2, n - 1}) {
      EXPECT_LT(permutation.Apply(7, x), n);
      EXPECT_EQ(permutation.Invert(7, permutation.Apply(7, x)), x);
    }
  }
}

// The 99.99 % point of chi-square with `degrees` degrees of freedom (Wilson and Hilferty).
double ChiSquareLimit(double degrees) {
  const double c = 2.0 / (9.0 * degrees);
  return degrees * std::pow(1 - c + 3.719 * std::sqrt(c), 3);
}

double ChiSquare(const std::vector<uint64_t>& counts, double expected) {
  double sum = 0;
  for (uint64_t count : counts) {
    const double d = static_cast<double>(count) - expected;
    sum += d * d / expected;
  }
  return sum;
}

TEST(Permutation, SmallOnesAreAllEquallyLikely) {
  for (const auto& [n, permutations] : {std::pair(2, 2), {3, 6}, {4, 24}, {5, 120}}) {
    std::map<std::vector<uint64_t>, uint64_t> seen;
    const Permutation permutation(n);
    const uint64_t keys = 1000 * permutations;
    for (uint64_t key = 0; key < keys; ++key) {
      std::vector<uint64_t> order;
      for (int x = 0; x < n; ++x) order.push_back(permutation.Apply(MixBits(key), x));
      ++seen[order];
    }
    EXPECT_EQ(seen.size(), permutations) << n;
    std::vector<uint64_t> counts;
    for (const auto& [order, count] : seen) counts.push_back(count);
    EXPECT_LT(ChiSquare(counts, 1000), ChiSquareLimit(permutations - 1)) << n;
  }
}

TEST(Permutation, EveryPlaceAndEveryPairOfPlacesIsEquallyLikely) {
  for (uint64_t n : {10, 16, 61}) {
    const Permutation permutation(n);
    const uint64_t keys = 200 * n * n;
    std::vector<uint64_t> places(n * n);
    std::vector<uint64_t> pairs(n * n);
    for (uint64_t key = 0; key < keys; ++key) {
      const uint64_t mixed = MixBits(key + 1);
      for (uint64_t x = 0; x < n; ++x) ++places[x * n + permutation.Apply(mixed, x)];
      ++pairs[permutation.Apply(mixed, 0) * n + permutation.Apply(mixed, 1)];
    }
    EXPECT_LT(ChiSquare(places, 200 * n), ChiSquareLimit((n - 1) * (n - 1))) << n;
    std::vector<uint64_t> distinct;
    for (uint64_t i = 0; i < n * n; ++i) {
      if (i / n == i % n) {
        EXPECT_EQ(pairs[i], 0);
      } else {
        distinct.push_back(pairs[i]);
      }
    }
    EXPECT_LT(ChiSquare(distinct, static_cast<double>(keys) / distinct.size()),
              ChiSquareLimit(distinct.size() - 1))
        << n;
  }
}

// ---- Every order

struct Case {
  OrderSpec spec;
  std::vector<uint64_t> records;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::vector<std::vector<uint64_t>> sets = {
      {1}, {0, 5, 0}, {7, 1, 0, 12, 3}, {100, 99, 98}, {1000}, {37, 512, 64, 1, 300, 300, 7}};
  for (const auto& records : sets) {
    cases.push_back({OrderSpec(), records});
    for (uint64_t cycle : {1, 2, 3, 16}) {
      for (uint64_t block : {1, 2, 5, 64}) cases.push_back({Interleave(cycle, block), records});
    }
    for (uint64_t lanes : {1, 3, 8, 64}) {
      for (uint64_t chunk : {1, 4, 10}) {
        for (uint64_t window : {1, 64, 200}) {
          cases.push_back({Shuffle(lanes + chunk, window, chunk, lanes), records});
        }
      }
    }
    cases.push_back({Shuffle(3, OrderSpec::kAll, 0, 64), records});
    cases.push_back({Shuffle(3, 0, 0, 64), records});
  }
  return cases;
}

TEST(Order, IsAPermutationAndPositionOfIsItsInverse) {
  for (const Case& c : Cases()) {
    const auto order = MakeOrder(c.spec, c.records);
    for (uint64_t epoch : {0, 3}) {
      const std::vector<uint64_t> items = Sequence(*order, epoch);
      std::vector<bool> seen(items.size());
      for (uint64_t p = 0; p < items.size(); ++p) {
        ASSERT_LT(items[p], items.size()) << order->Describe();
        ASSERT_FALSE(seen[items[p]]) << order->Describe();
        seen[items[p]] = true;
        ASSERT_EQ(order->ItemAt(epoch, p), items[p]) << order->Describe() << p;
        ASSERT_EQ(order->PositionOf(epoch, items[p]), p) << order->Describe();
      }
    }
  }
}

TEST(Order, RanksDivideTheSequence) {
  for (const Case& c : Cases()) {
    const auto order = MakeOrder(c.spec, c.records);
    const std::vector<uint64_t> items = Sequence(*order, 1);
    for (uint64_t world : {2, 3, 8}) {
      for (uint64_t rank = 0; rank < std::min(world, order->size()); ++rank) {
        std::vector<uint64_t> mine((order->size() - rank + world - 1) / world);
        order->Fill(1, rank, world, absl::MakeSpan(mine));
        for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine[i], items[rank + i * world]);
      }
    }
  }
}

TEST(Order, PiecesCoverTheItemsOnceWithinTheirPositions) {
  for (const Case& c : Cases()) {
    const auto order = MakeOrder(c.spec, c.records);
    for (uint64_t item = 0; item < order->size();) {
      const OrderPiece piece = order->PieceOf(2, item);
      ASSERT_EQ(piece.begin, item) << order->Describe();
      ASSERT_GT(piece.end, item);
      ASSERT_LE(piece.end, order->size());
      for (uint64_t i = piece.begin; i < piece.end; ++i) {
        const OrderPiece same = order->PieceOf(2, i);
        ASSERT_EQ(same.begin, piece.begin);
        ASSERT_EQ(same.end, piece.end);
        ASSERT_GE(order->PositionOf(2, i), piece.min_position) << order->Describe();
        ASSERT_LE(order->PositionOf(2, i), piece.max_position) << order->Describe();
      }
      item = piece.end;
    }
  }
}

// ---- Interleave

TEST(InterleaveOrder, MatchesAWalkOverTheSlots) {
  for (const Case& c : Cases()) {
    if (c.spec.kind != OrderSpec::Kind::kInterleave) continue;
    const std::vector<uint64_t> begins = ShardBegins(c.records);
    std::vector<uint64_t> expected;
    std::vector<int64_t> slots(c.spec.cycle, -1);
    std::vector<uint64_t> taken(c.records.size());
    size_t next = 0;
    for (size_t slot = 0, idle = 0; idle < slots.size(); slot = (slot + 1) % slots.size()) {
      if (slots[slot] < 0 && next < c.records.size()) slots[slot] = next++;
      if (slots[slot] < 0) {
        ++idle;
        continue;
      }
      idle = 0;
      const size_t shard = slots[slot];
      for (uint64_t i = 0; i < c.spec.block; ++i) {
        if (taken[shard] == c.records[shard]) {
          slots[slot] = -1;
          break;
        }
        expected.push_back(begins[shard] + taken[shard]++);
      }
    }
    EXPECT_EQ(Sequence(*MakeOrder(c.spec, c.records)), expected);
  }
}

// ---- Shuffle

TEST(ShuffleOrder, EpochsAndSeedsDiffer) {
  for (uint64_t window : {uint64_t{64}, OrderSpec::kAll}) {
    const auto order = MakeOrder(Shuffle(1, window, 4, 8), {1000});
    const auto other = MakeOrder(Shuffle(2, window, 4, 8), {1000});
    std::set<std::vector<uint64_t>> sequences;
    for (uint64_t epoch = 0; epoch < 20; ++epoch) {
      sequences.insert(Sequence(*order, epoch));
      sequences.insert(Sequence(*other, epoch));
    }
    EXPECT_EQ(sequences.size(), 40);
    EXPECT_EQ(Sequence(*order, 5), Sequence(*MakeOrder(Shuffle(1, window, 4, 8), {1000}), 5));
  }
}

// Records of a piece come within the window (plus one row, since ranks take turns).
TEST(ShuffleOrder, WindowBoundsWhatIsHeld) {
  for (uint64_t size : {1000, 1003, 9999}) {
    for (uint64_t chunk : {1, 7, 10}) {
      const auto order = MakeOrder(Shuffle(5, 320, chunk, 16), {size});
      EXPECT_LE(order->spec().window, 320);
      for (uint64_t item = 0; item < size;) {
        const OrderPiece piece = order->PieceOf(0, item);
        EXPECT_LE(piece.max_position - piece.min_position, order->span() + 16);
        item = piece.end;
      }
      // At any time, at most a window of pieces is open, with one stretch of each lane.
      uint64_t open = 0;
      uint64_t most = 0;
      std::map<uint64_t, std::pair<uint64_t, uint64_t>> pieces;  // begin -> seen, size
      for (uint64_t p = 0; p < size; ++p) {
        const uint64_t item = order->ItemAt(0, p);
        const OrderPiece piece = order->PieceOf(0, item);
        auto& [seen, all] = pieces[piece.begin];
        all = piece.end - piece.begin;
        if (seen++ == 0) open += all;
        most = std::max(most, open);
        if (seen == all) open -= all;
      }
      EXPECT_LE(most, order->spec().window + chunk * 16) << size << " " << chunk;
    }
  }
}

TEST(ShuffleOrder, PiecesAreWholeChunks) {
  const auto order = MakeOrder(Shuffle(5, 640, 10, 16), {100000});
  uint64_t pieces = 0;
  for (uint64_t item = 0; item < 100000; ++pieces) item = order->PieceOf(0, item).end;
  // Chunks are divided only at the ends of lanes, and where item 0 follows the last one.
  EXPECT_LE(pieces, 10000 + 16 + 2);
}

TEST(ShuffleOrder, EveryRecordIsEquallyLikelyAtEveryPosition) {
  constexpr uint64_t kSize = 45;
  constexpr uint64_t kEpochs = 200 * kSize;
  for (const auto& [window, chunk] :
       {std::pair(uint64_t{12}, uint64_t{3}), {uint64_t{8}, uint64_t{2}}, {OrderSpec::kAll, 1}}) {
    const auto order = MakeOrder(Shuffle(9, window, chunk, 4), {kSize});
    std::vector<uint64_t> counts(kSize * kSize);
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<uint64_t> items = Sequence(*order, epoch);
      for (uint64_t p = 0; p < kSize; ++p) ++counts[p * kSize + items[p]];
    }
    EXPECT_LT(ChiSquare(counts, 200), ChiSquareLimit((kSize - 1) * (kSize - 1)))
        << order->Describe();
  }
}

TEST(ShuffleOrder, NeighborsInTheSequenceAreNotRelated) {
  for (const auto& order : {MakeOrder(Shuffle(4, OrderSpec::kAll, 0, 64), {100000}),
                            MakeOrder(Shuffle(4, 6400, 10, 64), {100000})}) {
    const std::vector<uint64_t> items = Sequence(*order);
    for (size_t lag : {1, 2, 64}) {
      const double mean = (items.size() - 1) / 2.0;
      double covariance = 0;
      double variance = 0;
      for (size_t i = 0; i + lag < items.size(); ++i) {
        covariance += (items[i] - mean) * (items[i + lag] - mean);
        variance += (items[i] - mean) * (items[i] - mean);
      }
      // The next record of the same lane belongs to the same chunk as often as chunk and stretch
      // imply.
      const bool same_lane = order->spec().window != OrderSpec::kAll && lag == 64;
      const double expected = same_lane ? 9.0 / 99.0 : 0.0;
      EXPECT_NEAR(covariance / variance, expected, 0.015) << order->Describe() << " lag " << lag;
    }
  }
}

// Classes in a batch of 256, of data sorted by 1,000 classes; the exact permutation has 226.
TEST(ShuffleOrder, MixesSortedData) {
  const auto order = MakeOrder(Shuffle(1, 2430, 10, 64), {130000});
  const std::vector<uint64_t> items = Sequence(*order);
  uint64_t classes = 0;
  const uint64_t batches = items.size() / 256;
  for (uint64_t b = 0; b < batches; ++b) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 256; ++i) seen.insert(items[b * 256 + i] / 130);
    classes += seen.size();
  }
  EXPECT_GT(classes / batches, 145);
}

TEST(Order, DefaultsComeFromTheData) {
  const auto order = MakeOrder(Shuffle(0, 0, 0, 64), {1'000'000}, 110 << 10);
  EXPECT_EQ(order->spec().chunk, 9);
  EXPECT_EQ(order->spec().window, 2304);  // 256 MiB, in whole chunks for each lane
  EXPECT_EQ(order->Describe(), "shuffle(seed=0, window=2304, chunk=9, lanes=64)");
}

TEST(Order, WrongLengthsAreRefused) {
  EXPECT_FAILS(Order::Make(Interleave(0, 1), {0, 5}, 1), kInvalidArgument, "at least 1");
  EXPECT_FAILS(Order::Make(Shuffle(0, 0, 0, 0), {0, 5}, 1), kInvalidArgument, "lanes must be");
  EXPECT_FAILS(Order::Make(Shuffle(0, 0, 0, 64), {0, (uint64_t{1} << 40) + 1}, 1), kInvalidArgument,
               "an order must have at most 1099511627776 records, got 1099511627777");
}

TEST(Order, NoRecordsAtAll) {
  for (OrderSpec spec : {OrderSpec(), Interleave(4, 1), Shuffle(1, 0, 0, 64)}) {
    EXPECT_EQ(MakeOrder(spec, {})->size(), 0);
    EXPECT_EQ(MakeOrder(spec, {0, 0})->size(), 0);
  }
}

}  // namespace
}  // namespace shardfeed
