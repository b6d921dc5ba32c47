#include "shard/reshard/record_selection.h"

#include <algorithm>
#include <vector>

#include "tests/testing/files.h"

namespace shardfeed {
namespace {

std::vector<RecordRun> RunsOf(const RecordSelection& selection, uint64_t begin, uint64_t end) {
  std::vector<RecordRun> runs;
  EXPECT_OK(selection.ForEachRun(begin, end, [&runs](RecordRun run) {
    runs.push_back(run);
    return absl::OkStatus();
  }));
  return runs;
}

std::vector<uint64_t> NumbersOf(const RecordSelection& selection, uint64_t begin, uint64_t end) {
  std::vector<uint64_t> numbers;
  for (const RecordRun& run : RunsOf(selection, begin, end)) {
    EXPECT_LT(run.begin, run.end);
    for (uint64_t n = run.begin; n < run.end; ++n) numbers.push_back(n);
  }
  return numbers;
}

std::vector<uint64_t> NumbersOf(const RecordSelection& selection) {
  return NumbersOf(selection, 0, selection.count());
}

TEST(RecordSelectionTest, RunsKeepTheirOrderAndMayRepeat) {
  const auto selection = RecordSelection::Runs({{10, 13}, {5, 5}, {2, 4}, {10, 11}});
  EXPECT_EQ(selection.count(), 6);
  EXPECT_EQ(NumbersOf(selection), (std::vector<uint64_t>{10, 11, 12, 2, 3, 10}));
  EXPECT_EQ(RunsOf(selection, 1, 4), (std::vector<RecordRun>{{11, 13}, {2, 3}}));
}

TEST(RecordSelectionTest, NothingHasNoRuns) {
  EXPECT_TRUE(RunsOf(RecordSelection::Runs({}), 0, 0).empty());
  EXPECT_TRUE(RunsOf(RecordSelection::Sample(1000, 0, 1), 0, 0).empty());
  EXPECT_TRUE(RunsOf(RecordSelection::Sample(0, 0, 1), 0, 0).empty());
}

TEST(RecordSelectionTest, SampleHasSoManyInRisingOrder) {
  for (uint64_t count : {1, 7, 70'000, 199'999, 200'000}) {
    const std::vector<uint64_t> numbers = NumbersOf(RecordSelection::Sample(200'000, count, 3));
    EXPECT_EQ(numbers.size(), count);
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
    EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
    EXPECT_LT(numbers.back(), 200'000);
  }
}

TEST(RecordSelectionTest, SampleInPartsIsTheSameAsWhole) {
  const auto selection = RecordSelection::Sample(300'000, 150'000, 9);
  const std::vector<uint64_t> all = NumbersOf(selection);
  std::vector<uint64_t> parts;
  for (uint64_t begin : {0, 1, 60'000, 60'001, 149'999}) {
    const uint64_t end = begin == 0        ? 1
                         : begin == 1      ? 60'000
                         : begin == 60'000 ? 60'001
                         : begin == 60'001 ? 149'999
                                           : 150'000;
    for (uint64_t n : NumbersOf(selection, begin, end)) parts.push_back(n);
  }
  EXPECT_EQ(parts, all);
}

TEST(RecordSelectionTest, SeedsGiveSamplesOfTheirOwn) {
  EXPECT_EQ(NumbersOf(RecordSelection::Sample(1000, 100, 1)),
            NumbersOf(RecordSelection::Sample(1000, 100, 1)));
  EXPECT_NE(NumbersOf(RecordSelection::Sample(1000, 100, 1)),
            NumbersOf(RecordSelection::Sample(1000, 100, 2)));
}

TEST(RecordSelectionTest, EveryRecordIsEquallyLikely) {
  // Chi-square of how often each of 20 is among 5, in 8,000 seeds: 19 degrees of freedom, p =
  // 0.0001 at 50.8; less here, since the counts within a sample are tied.
  std::vector<int> counts(20);
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    for (uint64_t n : NumbersOf(RecordSelection::Sample(20, 5, seed))) ++counts[n];
  }
  double chi_square = 0;
  for (int n : counts) chi_square += (n - 2000.0) * (n - 2000.0) / 2000.0;
  EXPECT_LT(chi_square, 50.8);
}

TEST(RecordSelectionTest, ErrorOfTheVisitorEndsIt) {
  const auto enough = [](RecordRun) { return absl::DataLossError("enough"); };
  EXPECT_FAILS(RecordSelection::Runs({{0, 5}}).ForEachRun(0, 5, enough), kDataLoss, "enough");
  EXPECT_FAILS(RecordSelection::Sample(10, 5, 1).ForEachRun(0, 5, enough), kDataLoss, "enough");
}

}  // namespace
}  // namespace shardfeed
