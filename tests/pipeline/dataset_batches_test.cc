#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::FirstError;
using ::shardfeed::testing::Modulo;
using ::shardfeed::testing::Odd;
using ::shardfeed::testing::Ragged;
using ::shardfeed::testing::Square;
using ::testing::ElementsAre;

TEST(DatasetTest, RaggedRowsAndPadding) {
  EXPECT_THAT(Collect(Ragged(Dataset::Range(3, 7)).Batch(3)),
              ElementsAre(R"({"value":[3,4,5],"values":[[3,3,3],[4,4,4,4],[]]})",
                          R"({"value":[6],"values":[[6]]})"));
  EXPECT_THAT(Collect(Ragged(Dataset::Range(3, 7)).PaddedBatch(3, {{"values", {0, -1}}})),
              ElementsAre(R"({"value":[3,4,5],"values":[[3,3,3,-1],[4,4,4,4],[-1,-1,-1,-1]]})",
                          R"({"value":[6],"values":[[6]]})"));
  EXPECT_THAT(Collect(Ragged(Dataset::Range(6, 8)).PaddedBatch(2, {{"values", {4, 0}}})),
              ElementsAre(R"({"value":[6,7],"values":[[6,0,0,0],[7,7,0,0]]})"));
  EXPECT_FAILS(FirstError(Ragged(Dataset::Range(0, 8)).PaddedBatch(2, {{"values", {3, 0}}})),
               kInvalidArgument,
               "column 'values': a row has 4 elements, more than the padded length of 3");
  // Ragged rows after a filter, and of batches that are divided again.
  EXPECT_THAT(Collect(Odd(Ragged(Dataset::Range(0, 10))).Batch(2).Unbatch().Skip(1).Batch(3)),
              ElementsAre(R"({"value":[3,5,7],"values":[[3,3,3],[],[7,7]]})",
                          R"({"value":[9],"values":[[9,9,9,9]]})"));
}

TEST(DatasetTest, BucketsGatherRowsOfLikeLength) {
  const Dataset ds = Ragged(Dataset::Range(0, 12)).Select({"values"});
  EXPECT_THAT(Collect(ds.BucketByLength("values", {2, 4}, {3, 2, 1})),
              ElementsAre(R"({"values":[[2,2],[3,3,3]]})", R"({"values":[[4,4,4,4]]})",
                          R"({"values":[[],[1],[]]})", R"({"values":[[7,7],[8,8,8]]})",
                          R"({"values":[[9,9,9,9]]})", R"({"values":[[6],[],[11]]})"));
  // The number of rows times the longest one stays within the budget.
  EXPECT_THAT(Collect(ds.BatchByLength("values", 6)),
              ElementsAre(R"({"values":[[],[1],[2,2]]})", R"({"values":[[3,3,3]]})",
                          R"({"values":[[4,4,4,4]]})", R"({"values":[[],[6],[7,7]]})",
                          R"({"values":[[8,8,8]]})", R"({"values":[[9,9,9,9]]})",
                          R"({"values":[[],[11]]})"));
}

TEST(DatasetTest, PackingPutsSequencesEndToEnd) {
  const Dataset ds =
      Ragged(Dataset::Range(1, 7)).Pack({"values"}, {.length = 6, .open = 2, .pad = {-1}});
  EXPECT_EQ(RowSpecText(ds.spec()),
            "values: int64 [6], values_segment_ids: int32 [6], values_positions: int32 [6]");
  EXPECT_THAT(Collect(ds.Select({"values", "values_segment_ids"})),
              ElementsAre(R"({"values":[1,2,2,3,3,3],"values_segment_ids":[1,2,2,3,3,3]})",
                          R"({"values":[4,4,4,4,6,-1],"values_segment_ids":[1,1,1,1,2,0]})"));
  EXPECT_FAILS(FirstError(Ragged(Dataset::Range(0, 9)).Pack({"values"}, {.length = 3})),
               kInvalidArgument,
               "element 4 of epoch 0: pack: column 'values': a sequence of 4 elements does not fit "
               "into a row of 3");
}

TEST(DatasetTest, SparseColumnsHaveIndices) {
  const Dataset ds = Ragged(Dataset::Range(0, 8)).Select({"values"});
  EXPECT_THAT(
      Collect(ds.Skip(1).Batch(4).Sparse({"values"}).Skip(1)),
      ElementsAre(R"({"values":[[],[6],[7,7]],"values_indices":[[],[[1,0]],[[2,0],[2,1]]]})"));
}

TEST(DatasetTest, BatchesOfOtherSizesHaveTheSameRows) {
  const Dataset rows = Ragged(Dataset::Range(0, 100));
  for (const bool drop : {false, true}) {
    for (const uint64_t size : {1, 6, 7, 14, 200}) {
      EXPECT_EQ(Collect(rows.Batch(7).Rebatch(size, drop)), Collect(rows.Batch(size, drop)));
    }
  }
}

TEST(DatasetTest, WindowsStandSideBySide) {
  const Dataset range = Dataset::Range(0, 7);
  EXPECT_THAT(Collect(range.Window(3)),
              ElementsAre(R"({"value":[0,1,2]})", R"({"value":[3,4,5]})", R"({"value":[6]})"));
  EXPECT_THAT(Collect(range.Window(3, 2, 1, true)),
              ElementsAre(R"({"value":[0,1,2]})", R"({"value":[2,3,4]})", R"({"value":[4,5,6]})"));
  EXPECT_THAT(Collect(range.Window(2, 4, 3)),
              ElementsAre(R"({"value":[0,3]})", R"({"value":[4]})"));
  EXPECT_THAT(Collect(range.Window(2, 5)), ElementsAre(R"({"value":[0,1]})", R"({"value":[5,6]})"));
  EXPECT_THAT(Collect(range.Window(2, 1, 1, true).Batch(3)),
              ElementsAre(R"({"value":[[0,1],[1,2],[2,3]]})", R"({"value":[[3,4],[4,5],[5,6]]})"));
  EXPECT_EQ(RowSpecText(Square(range).Window(2, 1, 1, true).spec()),
            "value: int64 [2], square: int64 [2]");
  EXPECT_EQ(RowSpecText(Square(range).Window(2).spec()),
            "value: int64 ragged, square: int64 ragged");
  for (const uint64_t rows : {0, 1, 2, 9, 100, 5000}) {
    for (const auto& [size, shift, stride, drop] : {std::tuple(1, 1, 1, false),
                                                    {3, 1, 1, false},
                                                    {3, 1, 2, true},
                                                    {4, 9, 1, false},
                                                    {4, 9, 3, true},
                                                    {2000, 700, 1, false},
                                                    {2, 3000, 100, true}}) {
      const Dataset windows = Square(Dataset::Range(0, rows)).Window(size, shift, stride, drop);
      std::vector<std::string> expected;
      for (uint64_t first = 0; first < rows; first += shift) {
        std::string values;
        uint64_t n = 0;
        for (; n < size && first + n * stride < rows; ++n) {
          values += (n > 0 ? "," : "") + std::to_string(first + n * stride);
        }
        if (drop && n < size) break;
        expected.push_back(fmt::format("{{\"value\":[{}]}}", values));
      }
      EXPECT_EQ(Collect(windows.Select({"value"})), expected) << windows.Text();
      EXPECT_EQ(windows.CountElements()->elements, expected.size()) << windows.Text();
    }
  }
  // Errors after a window name its first row.
  EXPECT_FAILS(FirstError(range.Window(3, 2).Map({},
                                                 [](RowContext& row) -> absl::Status {
                                                   if (row.In<int64_t>(0)[0] < 4)
                                                     return absl::OkStatus();
                                                   return absl::DataLossError("bad");
                                                 })),
               kDataLoss, "element 4 of epoch 0: bad");
}

TEST(DatasetTest, RowsOfOneKeyBecomeABatch) {
  const Dataset rows = Modulo(Dataset::Range(0, 11), 3);
  const auto text = [](const std::string& keys, const std::string& values) {
    return fmt::format(R"({{"key":[{}],"value":[{}]}})", keys, values);
  };
  EXPECT_THAT(Collect(rows.GroupByWindow("key", 3)),
              ElementsAre(text("0,0,0", "0,3,6"), text("1,1,1", "1,4,7"), text("2,2,2", "2,5,8"),
                          text("0", "9"), text("1", "10")));
  EXPECT_EQ(Collect(rows.GroupByWindow("key", 3, true)).size(), 3);
  // By a function, and by bytes; the remaining groups follow in the order of their first rows.
  const auto by = rows.GroupByWindow(
      [](RowContext& row) -> absl::StatusOr<std::string> {
        return std::string(row.In<int64_t>(0)[0] > 8 ? "b" : "a");
      },
      4);
  EXPECT_THAT(Collect(by.Select({"value"})),
              ElementsAre(R"({"value":[0,1,2,3]})", R"({"value":[4,5,6,7]})", R"({"value":[8]})",
                          R"({"value":[9,10]})"));
  EXPECT_EQ(by.spec(), rows.spec());
  EXPECT_FAILS(FirstError(rows.GroupByWindow(
                   [](RowContext& row) -> absl::StatusOr<std::string> {
                     if (row.In<int64_t>(0)[0] == 5) return absl::DataLossError("no key");
                     return std::string();
                   },
                   4)),
               kDataLoss, "element 5 of epoch 0: no key");
}

TEST(DatasetTest, BucketsByAFunctionAreThoseByAColumn) {
  const Dataset rows = Ragged(Dataset::Range(0, 100));
  const auto length = [](RowContext& row) -> absl::StatusOr<int64_t> {
    return row.In<int64_t>(1).size();
  };
  EXPECT_EQ(Collect(rows.BucketByLength(length, {1, 3}, {2, 3, 4})),
            Collect(rows.BucketByLength("values", {1, 3}, {2, 3, 4})));
  EXPECT_FAILS(FirstError(rows.BucketByLength(
                   [](RowContext& row) { return 5 - row.In<int64_t>(0)[0]; }, {1}, {99, 99})),
               kInvalidArgument,
               "element 6 of epoch 0: bucket_by_length: the function returned a length of -1");
}

}  // namespace
}  // namespace shardfeed
