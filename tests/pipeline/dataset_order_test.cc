#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::FirstError;
using ::shardfeed::testing::Square;
using ::shardfeed::testing::Start;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

// The values of a chain with one int64 column.
std::vector<int64_t> ValuesOf(const Dataset& ds) {
  std::vector<int64_t> values;
  auto it = Start(ds);
  for (Batch batch; it->Next(&batch).ok() && !batch.empty();) {
    for (int64_t value : batch.Values<int64_t>(0)) values.push_back(value);
  }
  return values;
}

TEST(DatasetTest, DatasetsAreCombined) {
  const Dataset a = Dataset::Range(0, 3);
  const Dataset b = Dataset::Range(10, 15);
  EXPECT_THAT(Collect(Dataset::Concatenate({a, b, a}).Batch(11)),
              ElementsAre(R"({"value":[0,1,2,10,11,12,13,14,0,1,2]})"));
  EXPECT_THAT(Collect(Dataset::Zip({a, Dataset::Range(10, 15, 1, "other")})),
              ElementsAre(R"({"other":10,"value":0})", R"({"other":11,"value":1})",
                          R"({"other":12,"value":2})"));
  EXPECT_THAT(Collect(Dataset::Interleave({a, b, a}, 2, 2).Batch(11)),
              ElementsAre(R"({"value":[0,1,10,11,2,12,13,0,1,14,2]})"));
  const std::vector<std::string> mixed =
      Collect(Dataset::Mix({a, b}, {1, 3}, /*seed=*/5, {Exhausted::kDrop}));
  EXPECT_THAT(mixed, UnorderedElementsAreArray(Collect(Dataset::Concatenate({a, b}))));
  // The share of each is its weight.
  const Dataset many = Dataset::Range(0, 100000);
  int small = 0;
  for (const std::string& e :
       Collect(Dataset::Mix({Dataset::Range(-50000, 0), many}, {0.25, 0.75}, 1).Take(20000))) {
    small += e.find('-') != std::string::npos;
  }
  EXPECT_NEAR(small, 5000, 300);
  EXPECT_LT(
      Collect(Dataset::Mix({a, many}, {1, 1}, 2, {Exhausted::kStop, Exhausted::kDrop})).size(),
      100);
  EXPECT_EQ(
      Collect(Dataset::Mix({a, many}, {1, 1}, 2, {Exhausted::kRepeat, Exhausted::kDrop}).Take(1000))
          .size(),
      1000);
}

TEST(DatasetTest, ShuffleOfAWindow) {
  const Dataset ds = Dataset::Range(0, 1000).Shuffle(/*seed=*/3, /*window=*/100);
  const std::vector<std::string> first = Collect(ds);
  EXPECT_EQ(first, Collect(ds));
  EXPECT_NE(first, Collect(Dataset::Range(0, 1000)));
  EXPECT_THAT(first, UnorderedElementsAreArray(Collect(Dataset::Range(0, 1000))));
  EXPECT_NE(first, Collect(Dataset::Range(0, 1000).Shuffle(4, 100)));
  // Each epoch draws again.
  const std::vector<std::string> twice = Collect(ds.Repeat(2));
  ASSERT_EQ(twice.size(), 2000);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), twice.begin()));
  EXPECT_FALSE(std::equal(first.begin(), first.end(), twice.begin() + 1000));
  EXPECT_EQ(Collect(Dataset::Range(0, 100).Batch(7).Shuffle(1, 4)).size(), 15);
}

TEST(DatasetTest, OutOfOrderDeliversAll) {
  const Dataset ds = Square(Dataset::Range(0, 20000)).Batch(16);
  EXPECT_THAT(Collect(*Start(ds, /*deterministic=*/false)), UnorderedElementsAreArray(Collect(ds)));
  EXPECT_FAILS(Start(ds, false)->StateDict().status(), kFailedPrecondition,
               "deterministic = false");
}

TEST(DatasetTest, AChoiceSaysWhichInputIsNext) {
  const Dataset a = Dataset::Range(0, 3);
  const Dataset b = Dataset::Range(10, 20);
  const Dataset turns = Dataset::Range(0, 2).Repeat();
  const auto choose = [&](Exhausted first) {
    return ValuesOf(Dataset::Choose({a, b}, turns, {first, Exhausted::kDrop}).Take(12));
  };
  EXPECT_THAT(choose(Exhausted::kStop), ElementsAre(0, 10, 1, 11, 2, 12));
  EXPECT_THAT(choose(Exhausted::kDrop), ElementsAre(0, 10, 1, 11, 2, 12, 13, 14, 15, 16, 17, 18));
  EXPECT_THAT(choose(Exhausted::kRepeat), ElementsAre(0, 10, 1, 11, 2, 12, 0, 13, 1, 14, 2, 15));
  // It ends with the choice, or once all inputs have ended if the choice is endless.
  EXPECT_THAT(ValuesOf(Dataset::Choose({a, b}, Dataset::Range(0, 2))), ElementsAre(0, 10));
  EXPECT_EQ(ValuesOf(Dataset::Choose({a, b}, turns, {Exhausted::kDrop})).size(), 13);
  EXPECT_THAT(
      Collect(Dataset::Choose({b.Batch(4), a.Batch(2)}, turns)),
      ElementsAre(R"({"value":[10,11,12,13]})", R"({"value":[0,1]})", R"({"value":[14,15,16,17]})",
                  R"({"value":[2]})", R"({"value":[18,19]})"));
  EXPECT_EQ(Dataset::Choose({a.Repeat(), b}, Dataset::Range(0, 5), {Exhausted::kRepeat})
                .CountElements()
                ->elements,
            5);
  EXPECT_FALSE(Dataset::Choose({a, b}, turns).CountElements()->known());
  EXPECT_FAILS(
      FirstError(Dataset::Choose({a, b}, Dataset::Range(1, 9))), kInvalidArgument,
      "element 1 of epoch 0: choose: dataset 2 does not exist: there are 2, numbered from 0");
  // An input that is repeated forever may be empty.
  auto it =
      Start(Dataset::Choose({a.Take(0), b}, Dataset::Range(0, 1).Repeat(), {Exhausted::kDrop}));
  std::thread canceller([&] { it->Cancel(); });
  Batch batch;
  EXPECT_FAILS(it->Next(&batch), kCancelled, "the run was cancelled");
  canceller.join();
}

TEST(DatasetTest, ExactMixesMeetTheirWeights) {
  const Dataset a = Dataset::Range(0, 600);
  const Dataset b = Dataset::Range(1000, 1600);
  const Dataset c = Dataset::Range(2000, 2600);
  const std::vector<int64_t> mixed =
      ValuesOf(Dataset::Mix({a, b, c}, {3, 2, 1}, 0, {Exhausted::kStop}, true));
  std::vector<int64_t> counts(3);
  for (size_t i = 0; i < mixed.size(); ++i) {
    EXPECT_EQ(mixed[i], 1000 * (mixed[i] / 1000) + counts[mixed[i] / 1000]++);
    if (i % 6 != 5) continue;
    EXPECT_THAT(counts, ElementsAre(i / 6 * 3 + 3, i / 6 * 2 + 2, i / 6 + 1));
  }
  EXPECT_EQ(counts[0], 600);
  // The rest is shared again; the seed has no effect.
  const auto rest = ValuesOf(
      Dataset::Mix({a.Take(2), b.Take(6), c.Take(6)}, {1, 1, 1}, 7, {Exhausted::kDrop}, true));
  EXPECT_THAT(rest, ElementsAre(0, 1000, 2000, 1, 1001, 2001, 1002, 2002, 1003, 2003, 1004, 2004,
                                1005, 2005));
  EXPECT_EQ(*Dataset::Mix({a, b}, {1, 2}, 7, {Exhausted::kDrop}, true).Fingerprint(),
            *Dataset::Mix({a, b}, {1, 2}, 8, {Exhausted::kDrop}, true).Fingerprint());
}

TEST(DatasetTest, ResampledClassesHaveTheirShares) {
  constexpr int64_t kRows = 30000;
  // Class 0 is every other row; 1 and 2 are a quarter each.
  const Dataset rows =
      Dataset::Range(0, kRows).Map({{"kind", DType::kInt64, {}}}, [](RowContext& row) {
        const int64_t value = row.In<int64_t>(0)[0];
        row.Out<int64_t>(0)[0] = value % 2 == 0 ? 0 : 1 + value / 2 % 2;
        return absl::OkStatus();
      });
  for (const bool known : {false, true}) {
    for (const std::vector<double>& target :
         {std::vector<double>{1, 1, 1}, {0.7, 0.1, 0.2}, {0, 3, 1}}) {
      const Dataset ds = rows.RejectionResample(
          "kind", target, known ? std::vector<double>{2, 1, 1} : std::vector<double>{}, 5);
      const std::vector<int64_t> kinds = ValuesOf(ds.Select({"kind"}));
      double total = 0;
      double most = 0;
      for (size_t i = 0; i < 3; ++i) {
        total += target[i];
        most = std::max(most, target[i] / (i == 0 ? 2 : 1));
      }
      // As many rows as the scarcest class allows.
      EXPECT_NEAR(kinds.size(), kRows / 4.0 * total / most, 0.03 * kRows);
      for (size_t i = 0; i < 3; ++i) {
        const double share = std::count(kinds.begin(), kinds.end(), i) * 1.0 / kinds.size();
        EXPECT_NEAR(share, target[i] / total, 0.02);
      }
      EXPECT_EQ(ValuesOf(rows.RejectionResample(
                                 [](RowContext& row) { return row.In<int64_t>(1)[0]; }, target,
                                 known ? std::vector<double>{4, 2, 2} : std::vector<double>{}, 5)
                             .Select({"kind"})),
                kinds);
    }
  }
  auto it = Start(rows.RejectionResample("kind", {1, 1}, {1, 1}));
  EXPECT_EQ(Collect(*it, 3).size(), 3);
  Batch batch;
  EXPECT_FAILS(it->Next(&batch), kInvalidArgument,
               "element 3 of epoch 0: rejection_resample: class 2 does not exist: there are 2, "
               "numbered from 0");
  const Dataset shares = rows.RejectionResample("kind", {1, 1, 5}, {1, 1, 1});
  EXPECT_NE(Collect(shares), Collect(rows.RejectionResample("kind", {1, 1, 5}, {1, 1, 1}, 1)));
  EXPECT_NE(Collect(shares.Repeat(2)).size(), 2 * Collect(shares).size());  // other draws
}

TEST(DatasetTest, SlicesDivideItemsAmongRanks) {
  EXPECT_THAT(Collect(Dataset::Slices({3, 0, 2})),
              ElementsAre(R"({"begin":0,"end":3,"item":0})", R"({"begin":0,"end":2,"item":2})"));
  EXPECT_THAT(Collect(Dataset::Slices({3, 0, 2}, std::nullopt, 1, 2)),
              ElementsAre(R"({"begin":2,"end":3,"item":0})", R"({"begin":0,"end":2,"item":2})"));
  EXPECT_THAT(Collect(Dataset::Slices({})), ElementsAre());
  EXPECT_THAT(Collect(Dataset::Slices({1}, std::nullopt, 0, 2)), ElementsAre());

  // Every row of every item is in one slice, in each epoch, whatever the sizes and ranks are.
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> sizes(random() % 20);
    for (uint64_t& size : sizes) size = random() % 3 == 0 ? 0 : random() % 50;
    const uint64_t world = 1 + random() % 9;
    std::optional<uint64_t> seed;
    if (round % 2 == 0) seed = round;
    std::vector<std::vector<int>> seen;
    for (uint64_t size : sizes) seen.emplace_back(size, 0);
    std::vector<uint64_t> rows(world);
    for (uint64_t rank = 0; rank < world; ++rank) {
      const Dataset slices = Dataset::Slices(sizes, seed, rank, world);
      auto it = Start(slices);
      for (Batch batch; it->Next(&batch).ok() && !batch.empty();) {
        for (size_t i = 0; i < batch.rows; ++i) {
          const int64_t begin = batch.Values<int64_t>(1)[i];
          const int64_t end = batch.Values<int64_t>(2)[i];
          ASSERT_LT(begin, end);
          rows[rank] += end - begin;
          for (int64_t row = begin; row < end; ++row) {
            ++seen.at(batch.Values<int64_t>(0)[i]).at(row);
          }
        }
      }
    }
    for (const std::vector<int>& item : seen) EXPECT_THAT(item, Each(1));
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
    EXPECT_LE(*most - *least, 1);
  }
}

TEST(DatasetTest, SlicesOfARankAreItsPart) {
  const Dataset part = Dataset::Slices({3, 2}, std::nullopt, 1, 2);
  EXPECT_FAILS(part.Batch(2).ShardSources(0, 2).status(), kInvalidArgument,
               "shard: the chain already takes a rank's part; leave out its shard");
  EXPECT_THAT(Collect(Dataset::Slices({3, 2}).ShardSources(1, 2)),
              ElementsAre(R"({"begin":0,"end":2,"item":1})"));
}

TEST(DatasetTest, SlicesAreOrderedBySeedAndEpoch) {
  const Dataset slices = Dataset::Slices(std::vector<uint64_t>(30, 2), 5);
  const std::vector<int64_t> twice = ValuesOf(slices.Repeat(2));
  const std::vector<int64_t> first(twice.begin(), twice.begin() + 30);
  const std::vector<int64_t> second(twice.begin() + 30, twice.end());
  EXPECT_THAT(first, UnorderedElementsAreArray(ValuesOf(Dataset::Range(0, 30))));
  EXPECT_THAT(second, UnorderedElementsAreArray(first));
  EXPECT_NE(first, second);
  EXPECT_EQ(ValuesOf(slices), first);
  EXPECT_NE(ValuesOf(Dataset::Slices(std::vector<uint64_t>(30, 2), 6)), first);
  // The order must never change: states count on it.
  EXPECT_THAT(std::vector<int64_t>(first.begin(), first.begin() + 5),
              ElementsAre(20, 2, 24, 7, 11));
}

TEST(DatasetTest, SlicesRefuseWrongRanksAndSizes) {
  EXPECT_FAILS(Dataset::Slices({1}, std::nullopt, 2, 2).status(), kInvalidArgument,
               "slices: rank 2 of 2: ranks are numbered from 0");
  EXPECT_FAILS(Dataset::Slices({1}, std::nullopt, 0, 0).status(), kInvalidArgument, "rank 0 of 0");
  EXPECT_FAILS(Dataset::Slices({uint64_t{1} << 62, 1}).status(), kInvalidArgument,
               "slices: the sum of the sizes must be at most 4611686018427387904");
  EXPECT_FAILS(Dataset::Slices({1}, std::nullopt, 0, uint64_t{1} << 32).status(), kInvalidArgument,
               "slices: world must be at most 4294967295, got 4294967296");
}

}  // namespace
}  // namespace shardfeed
