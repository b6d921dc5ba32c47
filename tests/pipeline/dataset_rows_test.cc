#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/mutex.h"
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
using ::shardfeed::testing::Modulo;
using ::shardfeed::testing::Odd;
using ::shardfeed::testing::Ragged;
using ::shardfeed::testing::Square;
using ::shardfeed::testing::Start;
using ::shardfeed::testing::Total;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(DatasetTest, BatchesAreInTheMemoryOfTheAllocator) {
  struct Blocks {
    Mutex mutex;
    std::map<const char*, size_t> sizes ABSL_GUARDED_BY(mutex);
  } blocks;
  const HostAllocator allocator = [&](size_t size) {
    std::shared_ptr<char> memory(new (std::align_val_t{64}) char[size],
                                 [](char* p) { ::operator delete[](p, std::align_val_t{64}); });
    MutexLock lock(blocks.mutex);
    blocks.sizes[memory.get()] = size;
    return memory;
  };
  const auto within = [&](const void* p) {
    MutexLock lock(blocks.mutex);
    const char* at = static_cast<const char*>(p);
    auto it = blocks.sizes.upper_bound(at);
    return it != blocks.sizes.begin() && at < (--it)->first + it->second;
  };
  // Steps and batching as one stage, and a batch of the rows that a filter kept.
  for (const Dataset& ds : {Ragged(Square(Dataset::Range(0, 40))).Batch(8),
                            Ragged(Square(Odd(Dataset::Range(0, 40)))).Batch(8)}) {
    auto it = ds.Start({.threads = 2, .allocator = allocator});
    ASSERT_OK(it);
    for (Batch batch; (*it)->Next(&batch).ok() && !batch.empty();) {
      for (size_t c = 0; c < batch.columns.size(); ++c) {
        if ((*batch.spec)[c].name == "value") continue;  // Range's own
        EXPECT_TRUE(within(batch.columns[c].data)) << (*batch.spec)[c].name;
        if (batch.columns[c].splits != nullptr) {
          EXPECT_TRUE(within(batch.columns[c].splits));
        }
      }
    }
  }
}

TEST(DatasetTest, RowsAreMappedAndBatched) {
  EXPECT_THAT(Collect(Square(Dataset::Range(0, 5)).Batch(2)),
              ElementsAre(R"({"square":[0,1],"value":[0,1]})", R"({"square":[4,9],"value":[2,3]})",
                          R"({"square":[16],"value":[4]})"));
  EXPECT_THAT(Collect(Square(Dataset::Range(0, 5)).Batch(2, /*drop_remainder=*/true)).size(), 2);
  EXPECT_THAT(Collect(Dataset::Range(5, 0, -2)),
              ElementsAre(R"({"value":5})", R"({"value":3})", R"({"value":1})"));
}

TEST(DatasetTest, AMapReplacesAndDropsColumns) {
  const Dataset ds = Dataset::Range(0, 3).Map(
      {{"value", DType::kFloat32, {2}}, {"name", DType::kBytes, {}}}, [](RowContext& row) {
        static constexpr std::string_view kNames[] = {"zero", "one", "two"};
        const int64_t value = row.In<int64_t>(0)[0];
        row.Out<float>(0)[0] = static_cast<float>(value);
        row.Out<float>(0)[1] = static_cast<float>(value) / 2;
        row.Out<std::string_view>(1)[0] = kNames[value];
        return absl::OkStatus();
      });
  EXPECT_EQ(RowSpecText(ds.spec()), "value: float32 [2], name: bytes");
  EXPECT_THAT(Collect(ds), ElementsAre(R"({"name":"zero","value":[0.0,0.0]})",
                                       R"({"name":"one","value":[1.0,0.5]})",
                                       R"({"name":"two","value":[2.0,1.0]})"));
  EXPECT_THAT(Collect(ds.Select({"name"}).Batch(3)),
              ElementsAre(R"({"name":["zero","one","two"]})"));
  EXPECT_THAT(Collect(ds.Map({}, [](RowContext&) { return absl::OkStatus(); }, {"value"}).Take(1)),
              ElementsAre(R"({"name":"zero"})"));
}

TEST(DatasetTest, AMapKeepsBytes) {
  std::vector<std::string> kept;
  for (const Dataset& ds : {Dataset::Range(0, 3000), Odd(Dataset::Range(0, 6000))}) {
    const Dataset text = ds.Map({{"text", DType::kBytes, {}}}, [](RowContext& row) {
                             row.Out<std::string_view>(0)[0] =
                                 row.Keep(std::to_string(row.In<int64_t>(0)[0]) + " is kept");
                             return absl::OkStatus();
                           }).Batch(1000);
    auto it = Start(text);
    std::vector<Batch> batches(3);
    for (Batch& batch : batches) EXPECT_OK(it->Next(&batch));
    it.reset();
    for (const Batch& batch : batches) {
      for (size_t row = 0; row < batch.rows; ++row) {
        EXPECT_EQ(batch.Row<std::string_view>(1, row)[0],
                  std::to_string(batch.Row<int64_t>(0, row)[0]) + " is kept");
      }
    }
  }
}

TEST(DatasetTest, PeekedElementsAreDeliveredByAdvance) {
  auto it = Start(Dataset::Range(0, 2000).Map({}, [](RowContext&) { return absl::OkStatus(); }));
  Batch ready;
  int64_t next = 0;
  while (true) {
    EXPECT_OK(it->Peek(&ready));
    if (ready.empty()) break;
    EXPECT_EQ(ready.Row<int64_t>(0, 0)[0], next);
    const size_t some = std::min<size_t>(ready.rows, 300);
    it->Advance(some);
    next += some;
    const std::string state = *it->StateDict();
    Batch one;
    EXPECT_OK(it->Next(&one));
    if (one.empty()) break;
    EXPECT_EQ(one.Row<int64_t>(0, 0)[0], next);
    EXPECT_OK(it->LoadStateDict(state));
  }
  EXPECT_EQ(next, 2000);
  EXPECT_EQ(it->stats().rows, it->stats().elements);
}

TEST(DatasetTest, FiltersKeepTheOrder) {
  const std::vector<std::string> odd = Collect(Odd(Dataset::Range(0, 10000)));
  ASSERT_EQ(odd.size(), 5000);
  EXPECT_EQ(odd[4999], R"({"value":9999})");
  EXPECT_THAT(
      Collect(Odd(Square(Odd(Dataset::Range(0, 8)))).Batch(3)),
      ElementsAre(R"({"square":[1,9,25],"value":[1,3,5]})", R"({"square":[49],"value":[7]})"));
}

TEST(DatasetTest, FlatMapMakesAnyNumberOfRows) {
  const Dataset ds = Dataset::Range(0, 4).FlatMap(
      {{"of", DType::kInt64, {}}, {"text", DType::kBytes, {}}, {"up", DType::kInt32, {}, true}},
      [](const Batch& in, size_t row, RowEmitter& out) {
        const int64_t n = in.Row<int64_t>(0, row)[0];
        for (int64_t i = 0; i < n; ++i) {
          out.Begin();
          out.Out<int64_t>(0)[0] = n;
          out.Out<std::string_view>(1)[0] = out.Keep(std::string(i, 'x'));
          auto up = out.Extend<int32_t>(2, i);
          std::fill(up.begin(), up.end(), 7);
        }
        return absl::OkStatus();
      });
  EXPECT_THAT(Collect(ds),
              ElementsAre(R"({"of":1,"text":"","up":[]})", R"({"of":2,"text":"","up":[]})",
                          R"({"of":2,"text":"x","up":[7]})", R"({"of":3,"text":"","up":[]})",
                          R"({"of":3,"text":"x","up":[7]})", R"({"of":3,"text":"xx","up":[7,7]})"));
}

TEST(DatasetTest, ElementsAreCounted) {
  const Dataset ds = Dataset::Range(0, 10);
  EXPECT_THAT(Collect(ds.Skip(3).Take(2)), ElementsAre(R"({"value":3})", R"({"value":4})"));
  EXPECT_THAT(Collect(ds.Batch(4).Skip(1).Take(1)), ElementsAre(R"({"value":[4,5,6,7]})"));
  EXPECT_THAT(Collect(ds.Shard(1, 4)),
              ElementsAre(R"({"value":1})", R"({"value":5})", R"({"value":9})"));
  EXPECT_THAT(Collect(ds.Batch(4).Shard(2, 3)), ElementsAre(R"({"value":[8,9]})"));
  EXPECT_THAT(Collect(ds.Skip(8).Enumerate("index", 5)),
              ElementsAre(R"({"index":5,"value":8})", R"({"index":6,"value":9})"));
  EXPECT_THAT(Collect(ds.Take(2).Repeat(2)),
              ElementsAre(R"({"value":0})", R"({"value":1})", R"({"value":0})", R"({"value":1})"));
  EXPECT_THAT(Collect(ds.Take(0).Repeat()), ElementsAre());
  EXPECT_EQ(Collect(ds.Repeat().Take(1234)).size(), 1234);
  EXPECT_EQ(Collect(*Start(ds.Batch(3).Prefetch(4)), 2).size(), 2);
}

TEST(DatasetTest, RandomNumbersDependOnTheRowAlone) {
  const auto noisy = [](uint64_t seed) {
    return Dataset::Range(0, 500).Map(
        {{"noise", DType::kFloat64, {2}}},
        [](RowContext& row) {
          row.Out<double>(0)[0] = row.random().Uniform();
          row.Out<double>(0)[1] = row.random().Uniform();
          return absl::OkStatus();
        },
        {}, seed);
  };
  const std::vector<std::string> rows = Collect(noisy(1));
  absl::StatusOr<std::unique_ptr<Iterator>> one = noisy(1).Batch(7).Unbatch().Start({.threads = 1});
  ASSERT_OK(one);
  EXPECT_EQ(Collect(**one), rows);
  EXPECT_NE(Collect(noisy(2)), rows);
  const std::vector<std::string> epochs = Collect(noisy(1).Repeat(2));
  EXPECT_NE(std::vector(epochs.begin() + 500, epochs.end()), rows);
}

TEST(EnumerateTest, NumbersThatDoNotFitAreAnError) {
  EXPECT_FAILS(FirstError(Dataset::Range(0, 10).Enumerate("index", INT64_MAX - 8)),
               kInvalidArgument,
               "enumerate: the number of element 9, counted from 9223372036854775799, does not "
               "fit int64");
}

TEST(DatasetTest, RowsAreTakenUntilAFunctionSaysNo) {
  const auto below = [](int64_t most) {
    return [most](RowContext& row) { return row.In<int64_t>(0)[0] % 10 < most; };
  };
  const Dataset range = Dataset::Range(0, 1000);
  EXPECT_THAT(Collect(range.TakeWhile(below(2))), ElementsAre(R"({"value":0})", R"({"value":1})"));
  EXPECT_THAT(Collect(range.TakeWhile(below(0))), ::testing::IsEmpty());
  EXPECT_EQ(Collect(range.TakeWhile(below(10))), Collect(range));
  EXPECT_EQ(range.TakeWhile(below(2)).Text(), "range(0, 1000, 1).take_while");
  // Failures after the end are not noticed.
  EXPECT_EQ(Collect(Failing(range, 1000, 8).TakeWhile(below(7))).size(), 7);
  EXPECT_FAILS(FirstError(range.TakeWhile([](RowContext& row) {
                 return row.In<int64_t>(0)[0] < 9 ? true : throw std::runtime_error("thrown");
               })),
               kInternal, "element 9 of epoch 0: take_while: thrown");
}

TEST(DatasetTest, TheFirstRowOfEachValueIsKept) {
  EXPECT_THAT(
      Collect(Modulo(Dataset::Range(0, 100), 3).Unique("key")),
      ElementsAre(R"({"key":0,"value":0})", R"({"key":1,"value":1})", R"({"key":2,"value":2})"));
  const auto strings = Dataset::Range(0, 50).Map({{"s", DType::kBytes, {}}}, [](RowContext& row) {
    row.Out<std::string_view>(0)[0] = row.Keep(std::string(row.In<int64_t>(0)[0] % 4, 'x'));
    return absl::OkStatus();
  });
  EXPECT_THAT(Collect(strings.Unique("s").Select({"s"})),
              ElementsAre(R"({"s":""})", R"({"s":"x"})", R"({"s":"xx"})", R"({"s":"xxx"})"));
  // Equal numbers are one, and so are all NaNs.
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const auto floats = Dataset::Range(0, 6).Map({{"f", dtype, {}}}, [dtype](RowContext& row) {
      const int64_t i = row.In<int64_t>(0)[0];
      const double value = std::array{0.0, -0.0, 1.0, std::nan(""), std::nan("1"), 1.0}[i];
      if (dtype == DType::kFloat32) row.Out<float>(0)[0] = static_cast<float>(value);
      if (dtype == DType::kFloat64) row.Out<double>(0)[0] = value;
      constexpr std::array<uint16_t, 6> kHalf = {0, 0x8000, 0x3c00, 0x7c01, 0xfe00, 0x3c00};
      constexpr std::array<uint16_t, 6> kBrain = {0, 0x8000, 0x3f80, 0x7f81, 0xffc0, 0x3f80};
      if (dtype == DType::kFloat16) row.Out<uint16_t>(0)[0] = kHalf[i];
      if (dtype == DType::kBFloat16) row.Out<uint16_t>(0)[0] = kBrain[i];
      return absl::OkStatus();
    });
    EXPECT_THAT(Collect(floats.Unique("f").Select({"value"})),
                ElementsAre(R"({"value":0})", R"({"value":2})", R"({"value":3})"))
        << DTypeName(dtype);
  }
}

TEST(DatasetTest, AScanKnowsTheRowsBefore) {
  const Dataset range = Dataset::Range(1, 6);
  const auto totals = {R"({"total":1})", R"({"total":3})", R"({"total":6})", R"({"total":10})",
                       R"({"total":15})"};
  EXPECT_EQ(Collect(Total(range)), std::vector<std::string>(totals.begin(), totals.end()));
  EXPECT_EQ(Total(range).CountElements()->elements, 5);
  // Each epoch starts over.
  EXPECT_THAT(Collect(Total(range.Take(2)).Repeat(2)),
              ElementsAre(R"({"total":1})", R"({"total":3})", R"({"total":1})", R"({"total":3})"));
  const auto scan = [&](FlatMapFn fn) {
    return Dataset::Range(0, 1000).Scan({{"n", DType::kInt64, {}}}, [fn] { return fn; });
  };
  const Dataset fails = scan([](const Batch& in, size_t row, RowEmitter& out) -> absl::Status {
    out.Begin();
    if (in.Row<int64_t>(0, row)[0] == 100) return absl::DataLossError("enough");
    return absl::OkStatus();
  });
  auto it = Start(fails);
  Batch batch;
  for (int i = 0; i < 100; ++i) ASSERT_OK(it->Next(&batch));
  EXPECT_FAILS(it->Next(&batch), kDataLoss, "element 100 of epoch 0: enough");
  EXPECT_FAILS(FirstError(scan([](const Batch&, size_t, RowEmitter&) { return absl::OkStatus(); })),
               kInvalidArgument,
               "scan: the function must return one row for each, but returned 0 for ");
}

TEST(DatasetTest, CardinalitiesAreAsserted) {
  const Dataset odd = Odd(Dataset::Range(0, 1000));
  EXPECT_FALSE(odd.CountElements()->known());
  const Dataset asserted = odd.AssertCardinality(500);
  EXPECT_EQ(asserted.Batch(7).CountElements()->elements, 72);
  EXPECT_EQ(Collect(asserted), Collect(odd));
  EXPECT_EQ(Collect(asserted.Repeat(3)).size(), 1500);
  EXPECT_FAILS(FirstError(odd.AssertCardinality(501)), kFailedPrecondition,
               "assert_cardinality: the epoch has 500 elements, and 501 were asserted");
  EXPECT_FAILS(FirstError(odd.AssertCardinality(499)), kFailedPrecondition,
               "the epoch has at least");
  EXPECT_EQ(Collect(Dataset::Range(0, 0).AssertCardinality(0)).size(), 0);
}

}  // namespace
}  // namespace shardfeed
