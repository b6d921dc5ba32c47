#include "reader/order/mix_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

std::vector<std::string> Names(size_t n) {
  std::vector<std::string> names;
  for (size_t i = 0; i < n; ++i) names.push_back(fmt::format("s{}", i));
  return names;
}

MixSchedule MakeSchedule(const std::vector<MixSegment>& segments, uint64_t lanes,
                         std::vector<uint64_t> source_lanes = {},
                         std::optional<uint64_t> seed = std::nullopt) {
  source_lanes.resize(segments[0].weights.size(), lanes);
  absl::StatusOr<MixSchedule> made =
      MixSchedule::Make(Names(source_lanes.size()), segments, lanes, source_lanes, seed);
  EXPECT_OK(made);
  return *std::move(made);
}

// So many rows have their shares together where sources are drawn at random.
uint64_t DrawnRows(uint64_t lanes) {
  return std::max(MixSchedule::kDrawnRows, (MixSchedule::kDrawnPositions + lanes - 1) / lanes);
}

// Counts draws row by row, and compares each with what the schedule computes.
void ExpectAsCounted(const MixSchedule& schedule, const std::vector<uint64_t>& source_lanes,
                     uint64_t rows, bool drawn) {
  const uint64_t lanes = schedule.lanes();
  const size_t sources = schedule.num_sources();
  std::vector<std::vector<uint64_t>> taken;
  for (uint64_t of_source : source_lanes) taken.emplace_back(of_source);
  std::vector<uint64_t> since(sources);  // the segment's begin
  const auto expect_share = [&](uint64_t p, double most) {
    const size_t segment = schedule.SegmentOf(p);
    for (uint32_t s = 0; s < sources; ++s) {
      const double share = static_cast<double>(schedule.SharesOf(segment)[s]) /
                           static_cast<double>(schedule.PeriodOf(segment));
      const double whole = share * static_cast<double>(p - schedule.SegmentBegin(segment));
      ASSERT_LT(std::abs(static_cast<double>(since[s]) - whole), most)
          << "source " << s << " before position " << p;
    }
  };
  for (uint64_t row = 0; row < rows; ++row) {
    const size_t segment = schedule.SegmentOf(row * lanes);
    if (schedule.SegmentBegin(segment) == row * lanes) since.assign(sources, 0);
    const uint64_t in_period =
        (row - schedule.SegmentBegin(segment) / lanes) % (schedule.PeriodOf(segment) / lanes);
    if (!drawn || in_period % DrawnRows(lanes) == 0) expect_share(row * lanes, 1);
    if (row % 13 == 0) {
      for (uint32_t s = 0; s < sources; ++s) {
        uint64_t least = UINT64_MAX;
        for (uint64_t l = 0; l < source_lanes[s]; ++l) {
          least = std::min(least, taken[s][l] * source_lanes[s] + l);
        }
        ASSERT_EQ(schedule.LeastLeft(s, row * lanes), least);
      }
    }
    std::vector<std::vector<uint64_t>> after = taken;
    for (uint64_t lane = 0; lane < lanes; ++lane) {
      const MixSchedule::Draw draw = schedule.At(row * lanes + lane);
      ++after[draw.source][lane % source_lanes[draw.source]];
    }
    for (uint64_t lane = 0; lane < lanes; ++lane) {
      const uint64_t p = row * lanes + lane;
      if (row % 13 == 0 && !drawn) expect_share(p, 3);
      const MixSchedule::Draw draw = schedule.At(p);
      const uint64_t own = lane % source_lanes[draw.source];
      const uint64_t number = draw.number / source_lanes[draw.source];
      ASSERT_EQ(draw.number % source_lanes[draw.source], own);
      ASSERT_GE(number, taken[draw.source][own]);
      ASSERT_LT(number, after[draw.source][own]);
      ASSERT_EQ(schedule.PositionOf(draw.source, draw.number), p);
      ++since[draw.source];
    }
    taken = std::move(after);
  }
}

// A walk draws what At does, wherever it goes, and however long its steps are.
void ExpectWalksAgree(const MixSchedule& schedule, std::mt19937_64& random) {
  MixSchedule::Walk walk(schedule);
  for (int i = 0; i < 6; ++i) {
    const uint64_t far = i % 3 == 2 ? random() >> 10 : 0;
    uint64_t position = far + random() % 80'000;
    const uint64_t stride = 1 + random() % (i % 2 == 0 ? 3 : 300);
    if (i > 0) walk.GoTo(position, stride);
    if (i == 0) position = 0;
    for (int step = 0; step < 3000; ++step) {
      ASSERT_EQ(walk.position(), position);
      const MixSchedule::Draw draw = walk.Next();
      const MixSchedule::Draw expected = schedule.At(position);
      ASSERT_EQ(draw.source, expected.source) << position;
      ASSERT_EQ(draw.number, expected.number) << position;
      position += walk.stride();
    }
  }
}

TEST(MixSchedule, AgreesWithCountingForRandomWeightsLanesAndSegments) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const size_t sources = 1 + random() % (trial % 10 == 0 ? 300 : 6);
    const uint64_t lanes = trial % 3 == 0 ? 64 : 1 + random() % 70;
    std::vector<MixSegment> segments;
    uint64_t position = 0;
    for (size_t i = 0; i < 1 + random() % 4; ++i) {
      std::vector<double> weights(sources);
      for (double& weight : weights) {
        weight = random() % 4 == 0 ? 0 : std::exp2(static_cast<double>(random() % 1000) / 100);
      }
      weights[random() % sources] = 1;
      segments.push_back({position, weights});
      position += lanes + random() % 20000;
    }
    std::vector<uint64_t> source_lanes;
    while (source_lanes.size() < sources) {
      const uint64_t of_source = 1 + random() % lanes;
      if (lanes % of_source == 0) source_lanes.push_back(of_source);
    }
    std::optional<uint64_t> seed;
    if (trial % 2 == 1) seed = random();
    const MixSchedule schedule = MakeSchedule(segments, lanes, source_lanes, seed);
    ExpectAsCounted(schedule, source_lanes, 40000 / lanes, seed.has_value());
    ExpectWalksAgree(schedule, random);
    if (::testing::Test::HasFatalFailure()) FAIL() << "trial " << trial;
  }
}

TEST(MixSchedule, LanesHaveEqualSharesOfEverySource) {
  // Equal shares are those that would otherwise go in step with the lanes.
  const MixSchedule schedule = MakeSchedule({{0, {1, 1, 1e-4}}}, 8, {8, 1, 4});
  const uint64_t all = schedule.PeriodOf(0) * 8;
  std::vector<std::vector<uint64_t>> taken(3, std::vector<uint64_t>(8));
  for (uint64_t p = 0; p < all; ++p) {
    ++taken[schedule.At(p).source][p % 8];
    if (p % (8 * 512) != 0) continue;
    for (uint64_t lane = 0; lane < 8; ++lane) {
      ASSERT_NEAR(taken[0][lane], static_cast<double>(p) / 16, 50) << p;
    }
  }
  for (uint32_t s = 0; s < 3; ++s) {
    for (uint64_t lane = 0; lane < 8; ++lane) EXPECT_EQ(taken[s][lane], schedule.SharesOf(0)[s]);
  }
}

// The sources of the first `positions`.
std::vector<uint32_t> Sequence(const MixSchedule& schedule, uint64_t positions) {
  std::vector<uint32_t> sequence;
  for (uint64_t p = 0; p < positions; ++p) sequence.push_back(schedule.At(p).source);
  return sequence;
}

TEST(MixSchedule, DrawsAtRandomWithASeed) {
  constexpr uint64_t kPositions = 8 * MixSchedule::kDrawnPositions;
  for (uint64_t lanes : {1, 16, 64}) {
    const MixSchedule drawn = MakeSchedule({{0, {3, 1}}}, lanes, {}, 5);
    const std::vector<uint32_t> sequence = Sequence(drawn, kPositions);
    // Among pairs at any small distance, 1/16 have the second source twice, as with independent
    // draws.
    for (uint64_t distance : {1, 2, 3, 4, 8, 16, 64, 100}) {
      uint64_t both = 0;
      for (uint64_t p = distance; p < kPositions; ++p) {
        both += sequence[p] == 1 && sequence[p - distance] == 1;
      }
      EXPECT_NEAR(static_cast<double>(both) / kPositions, 1.0 / 16, 0.006)
          << "lanes " << lanes << ", distance " << distance;
    }
    // Counts of 100 positions scatter as those of independent draws: sqrt(100 * 3 / 16) = 4.3.
    double squares = 0;
    for (uint64_t p = 0; p + 100 <= kPositions; p += 100) {
      const auto begin = sequence.begin() + static_cast<int64_t>(p);
      const auto count = static_cast<double>(std::count(begin, begin + 100, 1));
      squares += (count - 25) * (count - 25);
    }
    EXPECT_NEAR(std::sqrt(squares / (kPositions / 100)), 4.3, 0.4) << "lanes " << lanes;
    EXPECT_EQ(Sequence(MakeSchedule({{0, {3, 1}}}, lanes, {}, 5), kPositions), sequence);
    EXPECT_NE(Sequence(MakeSchedule({{0, {3, 1}}}, lanes, {}, 6), kPositions), sequence);
  }
}

TEST(MixSchedule, ReachesFarPositionsAtOnce) {
  const MixSchedule schedule = MakeSchedule({{0, {0.8, 0.15, 0.05}}, {1'000'000, {1, 0, 3}}}, 64);
  for (uint64_t p = 1'000'000'000'000; p < 1'000'000'001'000; ++p) {
    const MixSchedule::Draw draw = schedule.At(p);
    EXPECT_EQ(schedule.PositionOf(draw.source, draw.number), p);
    EXPECT_NE(draw.source, 1);
  }
}

TEST(MixSchedule, ASourceThatHasNoWeightLeftIsNeverDrawn) {
  const MixSchedule schedule = MakeSchedule({{0, {1, 1}}, {6400, {1, 0}}}, 64);
  EXPECT_EQ(schedule.PositionOf(1, 5000), MixSchedule::kNever);
  EXPECT_EQ(schedule.FirstFrom(1, 5000), MixSchedule::kNever);
  EXPECT_LT(schedule.FirstFrom(0, 5000), MixSchedule::kNever);
}

TEST(MixSchedule, FirstFromIsTheFirstDrawOfAnyLaterNumber) {
  const MixSchedule schedule = MakeSchedule({{0, {3, 1}}}, 16, {16, 4});
  for (uint64_t number : {0, 1, 15, 16, 100, 1000}) {
    uint64_t p = 0;
    while (schedule.At(p).source != 1 || schedule.At(p).number < number) ++p;
    EXPECT_EQ(schedule.FirstFrom(1, number), p);
  }
}

TEST(MixSchedule, MoreSegmentsOrSourcesBehindLeaveWhatWasBefore) {
  const MixSchedule before = MakeSchedule({{0, {3, 1}}}, 16);
  const MixSchedule after = MakeSchedule({{0, {3, 1, 0}}, {5000, {1, 1, 2}}}, 16);
  const uint64_t begin = after.SegmentBegin(1);
  EXPECT_EQ(begin, 5008);
  for (uint64_t p = 0; p < begin; ++p) {
    EXPECT_EQ(after.At(p).source, before.At(p).source);
    EXPECT_EQ(after.At(p).number, before.At(p).number);
  }
}

TEST(MixSchedule, SmallSharesHaveFinerWeights) {
  const MixSchedule schedule = MakeSchedule({{0, {1, 1e-5}}}, 64);
  EXPECT_EQ(schedule.PeriodOf(0), 1 << 20);
  EXPECT_EQ(schedule.SharesOf(0)[1], 10);
}

void ExpectRefused(size_t sources, const std::vector<MixSegment>& segments,
                   const std::string& message, uint64_t lanes = 64) {
  EXPECT_FAILS(
      MixSchedule::Make(Names(sources), segments, lanes, std::vector<uint64_t>(sources, lanes)),
      kInvalidArgument, message);
}

TEST(MixSchedule, RefusesWhatIsNoSchedule) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  ExpectRefused(0, {{0, {}}}, "mix: there are no sources");
  ExpectRefused(5000, {{0, {}}}, "mix: expected at most 4096 sources, got 5000; join some");
  ExpectRefused(
      4000, {{0, {}}},
      "mix: sources times lanes must be at most 4194304, got 4000 times 4096; use fewer lanes",
      4096);
  ExpectRefused(1, {}, "mix: there are no weights");
  ExpectRefused(1, std::vector<MixSegment>(65, {0, {1}}),
                "mix: the schedule has 64 changes of weights, and at most 63 are possible");
  ExpectRefused(1, {{10, {1}}},
                "mix: the schedule begins at position 10, but must say the weights from position 0 "
                "on");
  ExpectRefused(1, {{0, {1}}, {uint64_t{1} << 61, {1}}},
                "mix: position 2305843009213693952 of the schedule is too large");
  ExpectRefused(1, {{0, {1}}, {65, {1}}, {100, {1}}},
                "mix: weights change at position 65, and again at 100: changes must be in "
                "ascending order, in different 64 positions (the lanes)");
  ExpectRefused(2, {{0, {1}}}, "mix: got 1 weight for 2 sources");
  ExpectRefused(2, {{0, {1, -1}}},
                "mix: the weight of 's1' must be a number of at least 0, got -1");
  ExpectRefused(2, {{0, {nan, 1}}},
                "mix: the weight of 's0' must be a number of at least 0, got nan");
  ExpectRefused(2, {{0, {1, infinity}}},
                "mix: the weight of 's1' must be a number of at least 0, got inf");
  ExpectRefused(2, {{0, {0, 0}}}, "mix: all weights are 0");
  ExpectRefused(2, {{0, {1, 0}}, {64, {0, 0}}}, "mix: all weights from position 64 on are 0");
  ExpectRefused(2, {{0, {1, 1e-7}}},
                "mix: 's1' has less than 1/1048576 of the weights; make it larger or 0, or read "
                "its shards together with those of another source");
}

}  // namespace
}  // namespace shardfeed
