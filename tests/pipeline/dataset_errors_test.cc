#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::Failing;
using ::shardfeed::testing::FirstError;
using ::shardfeed::testing::kThreads;
using ::shardfeed::testing::Ragged;
using ::shardfeed::testing::Square;
using ::shardfeed::testing::Start;
using ::shardfeed::testing::Total;

TEST(ErrorTest, ErrorsComeInTheirPlaceAndNameTheRecord) {
  const auto failing = [](bool throws) {
    return Dataset::Range(0, 1000).Map({}, [throws](RowContext& row) -> absl::Status {
      if (row.In<int64_t>(0)[0] < 500) return absl::OkStatus();
      if (throws) throw std::runtime_error("thrown");
      return absl::DataLossError("returned");
    });
  };
  auto it = Start(failing(false).Batch(100));
  Batch batch;
  for (int i = 0; i < 5; ++i) ASSERT_OK(it->Next(&batch));
  EXPECT_FAILS(it->Next(&batch), kDataLoss, "element 500 of epoch 0: returned");
  EXPECT_FAILS(it->Next(&batch), kDataLoss, "element 500 of epoch 0: returned");
  EXPECT_FAILS(FirstError(failing(true)), kInternal, "element 500 of epoch 0: map: thrown");
  EXPECT_FAILS(FirstError(Dataset::Range(0, 10).Map({},
                                                    [](RowContext& row) {
                                                      (void)row.In<float>(0);
                                                      return absl::OkStatus();
                                                    })),
               kInternal, "column 'value' holds int64, but was used as float32");
  EXPECT_FAILS(FirstError(Dataset::Range(0, 9).Batch(3).Map({{"value", DType::kInt64, {}}},
                                                            [](Batch& b) -> absl::Status {
                                                              if (b.Values<int64_t>(0)[0] == 6)
                                                                return absl::AbortedError("enough");
                                                              return absl::OkStatus();
                                                            })),
               kAborted, "the batch that begins with element 6 of epoch 0: enough");
}

TEST(ErrorTest, MemoryThatIsNotThereIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where so much is asked for";
#endif
  const Dataset range = Dataset::Range(0, 10);
  EXPECT_FAILS(
      FirstError(range
                     .Map({{"x", DType::kInt64, {}, true}},
                          [](RowContext& row) {
                            row.Extend<int64_t>(0, row.In<int64_t>(0)[0] == 3 ? 1ul << 60 : 1);
                            return absl::OkStatus();
                          })
                     .Batch(5)),
      kResourceExhausted,
      "element 3 of epoch 0: map: column 'x': 1152921504606846976 elements, 9223372036854775808 "
      "bytes, do not fit into memory");
  EXPECT_FAILS(FirstError(range.FlatMap({{"x", DType::kInt64, {}, true}},
                                        [](const Batch& in, size_t row, RowEmitter& out) {
                                          const bool is_third = in.Values<int64_t>(0)[row] == 3;
                                          out.Begin();
                                          out.Extend<int64_t>(0, is_third ? 1ul << 60 : 1);
                                          return absl::OkStatus();
                                        })),
               kResourceExhausted, "flat_map: column 'x': 1152921504606846976 elements");
  const Dataset large = range.Map({{"image", DType::kUInt8, {1l << 31, 1l << 31}}},
                                  [](RowContext&) { return absl::OkStatus(); });
  for (const Dataset& ds : {large, large.Batch(4)}) {
    EXPECT_FAILS(FirstError(ds), kResourceExhausted,
                 "element 0 of epoch 0: map: column 'image': rows of 4611686018427387904 bytes, ");
  }
}

TEST(ErrorTest, RowsAreCalledAsTheirSourceSays) {
  Batch rows;
  rows.rows = 5;
  rows.spec = std::make_shared<const RowSpec>(RowSpec{{"n", DType::kInt64, {}}});
  AllocateFixedColumns(&rows);
  auto* values = reinterpret_cast<int64_t*>(rows.columns[0].data);
  std::iota(values, values + rows.rows, 0);
  const Dataset ds =
      Dataset::FromArrays(rows, [](uint64_t row) { return "image " + std::to_string(10 * row); });
  const auto fail = [](RowContext& row) {
    return row.In<int64_t>(0)[0] == 3 ? absl::DataLossError("is black") : absl::OkStatus();
  };
  EXPECT_FAILS(FirstError(ds.Map({}, fail)), kDataLoss, "image 30: is black");
}

TEST(ErrorTest, ChainsThatCannotBeSaySo) {
  const Dataset range = Dataset::Range(0, 10);
  const auto fails = [](const Dataset& ds, std::string_view message) {
    EXPECT_FAILS(ds.status(), kInvalidArgument, message);
    EXPECT_FAILS(ds.Batch(3).Take(1).Start().status(), kInvalidArgument, message);
  };
  fails(range.Batch(0), "batch: the size must lie between 1 and 2147483647, got 0");
  fails(range.Batch(2).Batch(2), "are already batches: unbatch first");
  fails(range.Unbatch(), "are already rows");
  fails(Square(range.Batch(2)), "map: expected rows, but the elements here are batches");
  fails(range.Select({"x"}), "there is no column 'x'; there are: value: int64");
  fails(range.Batch(2).TakeWhile(nullptr), "take_while: expected rows");
  fails(range.Unique("x"), "unique: there is no column 'x'; there are: value: int64");
  fails(range.Batch(2).Unique("value"), "unique: expected rows");
  fails(Ragged(range).Unique("values"),
        "unique: column 'values' must have one number or one bytes value per row, got "
        "values: int64 ragged");
  fails(Total(range.Batch(2)), "scan: expected rows");
  fails(range.Rebatch(2), "rebatch: the elements here are rows");
  fails(range.Batch(2).Rebatch(0), "rebatch: the size must lie between 1 and 2147483647, got 0");
  fails(Ragged(range).PaddedBatch(2).Rebatch(3), "rebatch: column 'values' is padded to another");
  fails(range.IgnoreErrors(),
        "ignore_errors: it must directly follow the steps on rows whose errors it ignores, "
        "such as parse, decode_image, map and filter; 'range' is not one of them");
  fails(Square(range).Repeat(2).IgnoreErrors(), "'repeat' is not one of them");
  fails(Square(range).IgnoreErrors({.share = std::nan("")}), "must be between 0 and 1, got nan");
  fails(Dataset::Choose({}, range), "choose: there are no datasets");
  fails(Dataset::Choose({range, Square(range)}, range), "choose: the datasets have different");
  fails(Dataset::Choose({range}, range.Batch(2)),
        "choose: the choice must have a single int64 column, the number of a dataset, but has "
        "batches of value: int64");
  fails(Dataset::Choose({range}, Square(range)), "but has value: int64, square: int64");
  fails(Dataset::Choose({range}, range, {Exhausted::kStop, Exhausted::kStop}), "once for all");
  for (const double weight : {std::nan(""), -1.0, static_cast<double>(INFINITY)}) {
    fails(Dataset::Mix({range, range}, {1, weight}, 0, {Exhausted::kDrop}, true),
          "a weight must be a number of at least 0");
  }
  fails(range.Batch(2).Window(2), "window: expected rows");
  fails(range.Window(0), "window: the size 0, the shift 0 and the stride 1 must lie between 1 and");
  fails(range.Window(UINT64_MAX), "must lie between 1 and 2147483647");
  fails(range.Window(2, 1, 0), "the stride 0 must lie");
  fails(Ragged(range).Window(2), "window: column 'values' is ragged");
  fails(range.GroupByWindow("x", 2), "group_by_window: there is no column 'x'");
  fails(range.GroupByWindow("value", 0), "the window's size must lie between 1 and 2147483647");
  fails(range.Batch(2).GroupByWindow(KeyFn(), 2), "group_by_window: expected rows");
  fails(range.BucketByLength(NumberFn(), {2}, {1}), "1 boundaries need 2");
  fails(range.RejectionResample("x", {1}), "rejection_resample: there is no column 'x'");
  fails(
      range.RejectionResample("value", {}),
      "rejection_resample: target_dist must have a share for each class, none below 0 and not all "
      "0; it is []");
  fails(range.RejectionResample("value", {0, 0}), "it is [0, 0]");
  fails(range.RejectionResample("value", {1, std::nan("")}), "it is [1, nan]");
  fails(range.RejectionResample("value", {1}, {-1}), "initial_dist must have");
  fails(range.RejectionResample("value", {1}, {1, 1}), "has 1 classes, but initial_dist has 2");
  fails(range.RejectionResample("value", {1, 1}, {1, 0}),
        "class 1 has a share in target_dist but none in initial_dist");
  fails(range.Map({}, MapFn(), {"x"}), "map: there is no column 'x'");
  fails(range.Parse({{.name = "x"}}), "there is no bytes column 'record'");
  fails(range.Shard(3, 3), "rank 3 of 3");
  fails(range.Shuffle(1), "it needs a window, in elements; only directly after read()");
  fails(range.Shuffle(1, 10, 4), "chunk and lanes affect how shards are read");
  fails(range.Shuffle(1, 10, 0, 2), "chunk and lanes affect how shards are read");
  fails(range.Enumerate("value"), "column 'value' already exists");
  fails(range.Pad(), "the elements here are rows");
  fails(range.Batch(2).Pad({{"value", {}}}), "there is no ragged column 'value'");
  fails(Ragged(range).Batch(2).Pad({{"values", {.value = 0.5}}}),
        "pad: column 'values' of int64 cannot hold the padding value 0.5");
  fails(Ragged(range).Batch(2).Pad({{"values", {.value = "x"}}}), "the padding value of bytes 'x'");
  fails(range.Sparse({"value"}), "sparse: the elements here are rows");
  fails(range.Batch(2).Sparse({"value"}), "sparse: there is no ragged column 'value'");
  fails(Ragged(range).Batch(2).Sparse({"values", "values"}),
        "column 'values_indices' already exists");
  fails(range.BucketByLength("value", {2}, {1, 1}), "have the same length");
  fails(Ragged(range).BucketByLength("values", {2}, {1}), "1 boundaries need 2");
  fails(range.Pack({"value"}, {.length = 2}), "have the same length");
  fails(Dataset::Zip({range, range}), "two datasets have a column 'value'");
  fails(Dataset::Concatenate({range, Square(range)}), "the datasets have different columns");
  fails(Dataset::Mix({range}, {1, 2}), "mix: got 2 weights for 1 dataset");
  fails(Dataset::Range(0, 1, 0), "the step must not be 0");
  fails(Dataset::Interleave({range}, 0), "at least 1");
  fails(range.Interleave(2), "only shards can be interleaved by themselves");
  fails(Ragged(range).PaddedBatch(2).Unbatch(), "padded to another length in each batch");
  EXPECT_FAILS(Dataset::Read("/nowhere/x@2").status(), kNotFound, "/nowhere");
}

TEST(IgnoreErrorsTest, RowsThatFailAreLeftOutAndCounted) {
  const auto kept = [](RowContext& row) {
    const int64_t value = row.In<int64_t>(0)[0];
    return value % 100 != 1 && value % 150 != 7 && value % 170 != 8;
  };
  const auto thrower = [](RowContext& row) {
    return row.In<int64_t>(0)[0] % 170 == 8 ? throw std::runtime_error("thrown") : true;
  };
  const Dataset range = Ragged(Dataset::Range(0, 3000));
  // Several steps fail, also on the same row: 1 % 150 is none of them, 307 of none.
  const Dataset good = Failing(Failing(range, 10000, -1), 10000, -1, "second").Filter(kept);
  const Dataset bad = Failing(Failing(range, 100, 1), 150, 7, "second").Filter(thrower);
  const Dataset ignoring = bad.IgnoreErrors({.share = 0.05});
  for (const int threads : {1, kThreads}) {
    auto it = *ignoring.Start({.threads = threads});
    EXPECT_EQ(Collect(*it), Collect(good));
    const IteratorStats stats = it->stats();
    EXPECT_EQ(stats.ignored, 30 + 20 + 18);
    ASSERT_EQ(stats.first_ignored.size(), stats.ignored);
    EXPECT_EQ(stats.first_ignored[0], "element 1 of epoch 0: value 1 fails");
    EXPECT_EQ(stats.first_ignored[1], "element 7 of epoch 0: value 7 fails");
    EXPECT_EQ(stats.first_ignored[2], "element 8 of epoch 0: filter: thrown");
  }
  EXPECT_EQ(Start(good)->stats().ignored, 0);
  EXPECT_THAT(ignoring.Text(), ::testing::EndsWith(".filter.ignore_errors"));
  // Only errors of the preceding steps are ignored.
  EXPECT_FAILS(FirstError(Failing(ignoring, 100, 5, "third")), kDataLoss, "value 5 fails");
  // All rows of a stretch fail, and rows that no function sees.
  EXPECT_THAT(Collect(Failing(range, 1, 0).IgnoreErrors({.at_least = 5000})), ::testing::IsEmpty());
}

TEST(IgnoreErrorsTest, TooManyAreAnErrorInItsPlace) {
  const Dataset ds = Failing(Dataset::Range(0, 10000), 50, 49).IgnoreErrors();
  std::vector<std::string> states;
  for (const int threads : {1, kThreads}) {
    auto it = *ds.Start({.threads = threads});
    Batch batch;
    absl::Status status;
    std::string state;
    uint64_t rows = 0;
    while (true) {
      if (rows == 400) state = *it->StateDict();
      status = it->Next(&batch);
      if (!status.ok()) break;
      ++rows;
    }
    // 2 % fail, and ten are allowed: the eleventh is row 549.
    EXPECT_EQ(rows, 549 - 10);
    const std::string message =
        "ignore_errors: 11 of the first 550 rows failed, but at most 10 may be dropped "
        "(max_ignored); the last one is element 549 of epoch 0: value 549 fails";
    EXPECT_FAILS(status, kDataLoss, message + "; the first one was element 49 of epoch 0");
    // The state includes the counts.
    auto fresh = Start(ds);
    ASSERT_OK(fresh->LoadStateDict(state));
    for (rows = 400; status = fresh->Next(&batch), status.ok();) ++rows;
    EXPECT_EQ(rows, 549 - 10);
    EXPECT_FAILS(status, kDataLoss, message);
    // With a higher ceiling the run continues from there.
    auto more = Start(Failing(Dataset::Range(0, 10000), 50, 49).IgnoreErrors({.share = 0.03}));
    ASSERT_OK(more->LoadStateDict(state));
    EXPECT_EQ(Collect(*more).size(), 9800 - 400);
  }
}

}  // namespace
}  // namespace shardfeed
