#include "reader/order/mix_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

OrderSpec Spec(const std::vector<MixSegment>& schedule, uint64_t length = 0) {
  auto mixture = std::make_shared<Mixture>();
  for (size_t i = 0; i < schedule[0].weights.size(); ++i) {
    mixture->sources.push_back({fmt::format("s{}", i), 1, {}});
  }
  mixture->schedule = schedule;
  mixture->length = length;
  OrderSpec spec;
  spec.mixture = std::move(mixture);
  return spec;
}

OrderSpec Shuffled(OrderSpec spec, uint64_t window, uint64_t chunk, uint64_t lanes) {
  spec.kind = OrderSpec::Kind::kShuffle;
  spec.window = window;
  spec.chunk = chunk;
  spec.lanes = lanes;
  return spec;
}

std::vector<MixPart> Parts(const std::vector<uint64_t>& items) {
  std::vector<MixPart> parts;
  for (uint64_t n : items) parts.push_back({n, 1000, n});
  return parts;
}

std::shared_ptr<const MixOrder> MakeMix(const OrderSpec& spec, const std::vector<uint64_t>& items) {
  auto order = MixOrder::Make(spec, Parts(items));
  EXPECT_OK(order);
  return order.ok() ? *order : nullptr;
}

// Compares what each of `world` ranks is given in blocks with the whole epoch, also if it begins in
// the middle.
void ExpectCursorAgrees(const MixOrder& order, uint64_t world, uint64_t epochs,
                        std::mt19937_64& random) {
  for (uint64_t rank = 0; rank < world; ++rank) {
    const std::unique_ptr<OrderCursor> cursor = order.MakeCursor();
    uint64_t position = rank + random() % (order.size() / world + 1) * world;
    for (uint64_t epoch = 0; epoch < epochs; ++epoch, position = rank) {
      while (position < order.size()) {
        const uint64_t left = (order.size() - position + world - 1) / world;
        std::vector<uint64_t> items(std::min<uint64_t>(left, 1 + random() % 2000));
        cursor->Fill(epoch, position, world, absl::MakeSpan(items));
        for (uint64_t item : items) {
          ASSERT_EQ(item, order.ItemAt(epoch, position)) << "epoch " << epoch << " at " << position;
          position += world;
        }
      }
    }
  }
}

// Compares the epochs with what a plain program delivers that draws by the schedule, and begins a
// source again when it has ended.
void ExpectAsDrawn(const MixOrder& order, const std::vector<uint64_t>& sizes, uint64_t epochs) {
  uint64_t total = 0;
  std::vector<uint64_t> begins;
  for (uint64_t n : sizes) {
    begins.push_back(total);
    total += n;
  }
  // By source and pass: records.
  std::map<std::pair<uint32_t, uint64_t>, std::set<uint64_t>> taken;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<uint64_t> items(order.size());
    order.Fill(epoch, 0, 1, absl::MakeSpan(items));
    std::map<uint64_t, uint64_t> position_of;
    uint64_t last = 0;
    for (uint64_t p = 0; p < order.size(); ++p) {
      ASSERT_EQ(order.ItemAt(epoch, p), items[p]);
      ASSERT_EQ(order.PositionOf(epoch, items[p]), p) << "epoch " << epoch;
      ASSERT_TRUE(position_of.emplace(items[p], p).second);
      last = std::max(last, items[p]);
      const uint64_t record = items[p] % total;
      const MixSchedule::Draw draw = order.schedule().At(epoch * order.size() + p);
      ASSERT_EQ(order.SourceAt(epoch, p), draw.source);
      ASSERT_GE(record, begins[draw.source]);
      ASSERT_LT(record, begins[draw.source] + sizes[draw.source]);
      ASSERT_TRUE((taken[{draw.source, draw.number / sizes[draw.source]}].insert(record).second));
    }
    const uint64_t all = last / total * total + total;
    for (uint64_t item = 0; item < all; item += 1 + all / 30000) {
      if (!position_of.count(item)) {
        ASSERT_EQ(order.PositionOf(epoch, item), Order::kNowhere);
      }
    }
    for (uint64_t record = 0; record < total; record += 1 + total / 50) {
      std::vector<uint64_t> expected;
      for (const auto& [item, p] : position_of) {
        if (item % total == record) expected.push_back(item);
      }
      ASSERT_EQ(order.ItemsOf(epoch, record), expected);
    }
    std::set<uint64_t> looked_at;
    for (uint64_t item : items) {
      if (looked_at.count(item)) continue;
      const OrderPiece piece = order.PieceOf(epoch, item);
      ASSERT_TRUE(piece.begin <= item && item < piece.end);
      std::set<uint64_t> remainders;
      bool whole = true;
      for (uint64_t i = piece.begin; i < piece.end; ++i) {
        looked_at.insert(i);
        const uint64_t p = order.PositionOf(epoch, i);
        whole &= p != Order::kNowhere;
        if (p == Order::kNowhere) continue;
        ASSERT_TRUE(piece.min_position <= p && p <= piece.max_position);
        remainders.insert(p % piece.lanes);
      }
      ASSERT_LE(remainders.size(), 1);
      ASSERT_TRUE(whole || !piece.whole);
    }
  }
  // Each pass has each record once, but the last ones are not complete.
  for (const auto& [pass, records] : taken) {
    if (pass.second * sizes[pass.first] + sizes[pass.first] <=
        order.schedule().LeastLeft(pass.first, epochs * order.size())) {
      ASSERT_EQ(records.size(), sizes[pass.first]);
    }
  }
}

TEST(MixOrder, AgreesWithDrawingFromSourcesThatRepeat) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 60; ++trial) {
    const size_t sources = 1 + random() % 5;
    std::vector<uint64_t> sizes;
    for (size_t s = 0; s < sources; ++s) {
      sizes.push_back(1 + random() % (random() % 2 == 0 ? 20 : 20000));
    }
    std::vector<MixSegment> schedule;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      MixSegment segment = {i * 3000 + (i > 0 ? random() % 2000 : 0), {}};
      for (size_t s = 0; s < sources; ++s) {
        segment.weights.push_back(static_cast<double>(random() % 4));
      }
      segment.weights[random() % sources] = 2.5;
      schedule.push_back(segment);
    }
    OrderSpec spec = Spec(schedule, random() % 4 == 0 ? 0 : 1 + random() % 9000);
    if (trial % 2 == 1) {
      auto drawn = std::make_shared<Mixture>(*spec.mixture);
      drawn->seed = random();
      spec.mixture = std::move(drawn);
    }
    switch (random() % 4) {
      case 0:
        break;
      case 1:
        spec = Shuffled(spec, OrderSpec::kAll, 0, 64);
        break;
      default:
        spec = Shuffled(spec, 1 + random() % 4000, random() % 50, 1 + random() % 32);
    }
    spec.seed = trial;
    const absl::StatusOr<std::shared_ptr<const MixOrder>> order =
        MixOrder::Make(spec, Parts(sizes));
    ASSERT_OK(order);
    ExpectAsDrawn(**order, sizes, 3);
    ExpectCursorAgrees(**order, 1 + random() % 5, 3, random);
    if (::testing::Test::HasFatalFailure()) FAIL() << "trial " << trial;
  }
}

TEST(MixOrder, ReadsSourcesInOrderIfTheyAreNotShuffled) {
  const auto order = MakeMix(Spec({{0, {3, 1}}}, 1000), {500, 100});
  uint64_t next[2] = {0, 0};
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (uint64_t p = 0; p < 1000; ++p) {
      const uint32_t s = order->SourceAt(epoch, p);
      const uint64_t record = s == 0 ? next[0] % 500 : 500 + next[1] % 100;
      EXPECT_EQ(order->ItemAt(epoch, p) % 600, record);
      ++next[s];
    }
  }
  EXPECT_EQ(next[0], 2250);
}

TEST(MixOrder, EndsBeforeARecordComesTwice) {
  for (OrderSpec spec : {Spec({{0, {1, 1}}}), Shuffled(Spec({{0, {1, 1}}}), 256, 8, 16),
                         Shuffled(Spec({{0, {1, 1}}}), OrderSpec::kAll, 0, 16)}) {
    const auto order = MakeMix(spec, {100, 3000});
    EXPECT_GE(order->size(), 199);
    EXPECT_LE(order->size(), 201);
    std::set<uint64_t> seen;
    for (uint64_t p = 0; p < order->size(); ++p)
      EXPECT_TRUE(seen.insert(order->ItemAt(0, p)).second);
    EXPECT_LT(*seen.rbegin(), 3100);
  }
  EXPECT_EQ(MakeMix(Spec({{0, {1, 1}}, {100, {0, 1}}}), {100, 3000})->size(), 3050);
}

TEST(MixOrder, TakesAsMuchOfASourceAsItHasRecordsIfThereAreNoWeights) {
  OrderSpec spec = Spec({{0, {1, 1}}});
  auto mixture = std::make_shared<Mixture>(*spec.mixture);
  mixture->schedule[0].weights = {};
  spec.mixture = mixture;
  const auto order = MakeMix(spec, {300, 100});
  EXPECT_EQ(order->size(), 400);
  EXPECT_EQ(order->Describe(), MakeMix(Spec({{0, {3, 1}}}), {300, 100})->Describe());
}

TEST(MixOrder, DependsOnWeightsAndSourcesOnlyOnceTheyCount) {
  const auto before = MakeMix(Shuffled(Spec({{0, {1, 1}}}, 10000), 256, 8, 16), {1000, 3000});
  const auto after = MakeMix(Shuffled(Spec({{0, {1, 1, 0}}, {4800, {1, 0, 2}}}, 10000), 256, 8, 16),
                             {1000, 3000, 70});
  for (uint64_t p = 0; p < 4800; ++p) {
    // The records of further passes have other numbers.
    EXPECT_EQ(after->ItemAt(0, p) % 4070, before->ItemAt(0, p) % 4000);
  }
  for (uint64_t p : {0, 1, 4799, 4800}) {
    EXPECT_EQ(after->DescribeBefore(0, p), before->DescribeBefore(0, p));
    EXPECT_EQ(after->DataBefore(0, p), before->DataBefore(0, p));
  }
  EXPECT_NE(after->DescribeBefore(0, 4801), before->DescribeBefore(0, 4801));
  EXPECT_NE(after->DataBefore(0, 4801), before->DataBefore(0, 4801));
  EXPECT_NE(after->Describe(), before->Describe());
  // The length of an epoch counts in the second one.
  const auto longer = MakeMix(Shuffled(Spec({{0, {1, 1}}}, 10001), 256, 8, 16), {1000, 3000});
  EXPECT_EQ(longer->DescribeBefore(0, 10000), before->DescribeBefore(0, 10000));
  EXPECT_NE(longer->DescribeBefore(1, 0), before->DescribeBefore(1, 0));
}

TEST(MixOrder, HoldsNoMoreThanOneDatasetWould) {
  OrderSpec spec = Shuffled(Spec({{0, std::vector<double>(1000, 1)}}), 0, 0, 64);
  const auto order = MakeMix(spec, std::vector<uint64_t>(1000, 100'000));
  EXPECT_LE(order->span(), (uint64_t{256} << 20) / 1000);
  EXPECT_GE(order->span(), (uint64_t{200} << 20) / 1000);
  // Lanes are wide enough for reads of some records.
  EXPECT_GE(order->spec().chunk, 16);
  const auto two = MakeMix(Shuffled(Spec({{0, {3, 1}}}), 0, 0, 64), {1'000'000, 1'000'000});
  EXPECT_NEAR(two->HeldBytes(8, 0), two->span() * 1000 / 8, 10'000);
}

void ExpectRefused(const OrderSpec& spec, const std::vector<uint64_t>& items,
                   const std::string& message) {
  EXPECT_FAILS(MixOrder::Make(spec, Parts(items)), kInvalidArgument, message);
}

TEST(MixOrder, RefusesWhatIsNoMixture) {
  OrderSpec interleaved = Spec({{0, {1}}});
  interleaved.kind = OrderSpec::Kind::kInterleave;
  ExpectRefused(interleaved, {1}, "mix: the sources of a mixture are read in order or shuffled");
  ExpectRefused(Shuffled(Spec({{0, {1}}}), 10, 1, 0), {1}, "lanes must be from 1 to 65536, got 0");
  ExpectRefused(Spec({{0, {1, 1}}}), {1, 0},
                "mix: 's1' has no records; leave it out, or set its weight to 0");
  ExpectRefused(Spec({{0, {1, -1}}}), {1, 1}, "mix: the weight of 's1' must be a number");
  auto twice = std::make_shared<Mixture>();
  twice->sources = {{"a", 1, {}}, {"a", 1, {}}};
  twice->schedule = {{0, {1, 1}}};
  OrderSpec same;
  same.mixture = twice;
  ExpectRefused(same, {1, 1}, "mix: two sources are named 'a'");
  ExpectRefused(Spec({{0, {1}}}, uint64_t{1} << 41), {1},
                "mix: an epoch of 2199023255552 of 1 records is too long: each must be at most "
                "1099511627776");
  ExpectRefused(Spec({{0, {1, 1}}}, uint64_t{1} << 39), {1, uint64_t{1} << 39},
                "mix: the 1 record of 's0' may be repeated 549755813890 times in an epoch of "
                "549755813888; make the epoch shorter");
}

}  // namespace
}  // namespace shardfeed
