#include "pipeline/dataset.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/engine_choice.h"
#include "tests/pipeline/element_text.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"
#include "tfrecord/example_builder.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::ElementText;
using ::shardfeed::testing::OpenTable;
using ::shardfeed::testing::TestFolder;
using ::shardfeed::testing::WriteShards;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr int kThreads = 4;

std::unique_ptr<Iterator> Start(const Dataset& ds, bool deterministic = true) {
  absl::StatusOr<std::unique_ptr<Iterator>> it =
      ds.Start({.threads = kThreads, .deterministic = deterministic});
  EXPECT_OK(it);
  return it.ok() ? *std::move(it) : nullptr;
}

// Up to `most` further elements.
std::vector<std::string> Collect(Iterator& it, size_t most = SIZE_MAX) {
  std::vector<std::string> elements;
  while (elements.size() < most) {
    Batch batch;
    absl::Status status = it.Next(&batch);
    EXPECT_OK(status);
    if (!status.ok() || batch.empty()) break;
    elements.push_back(ElementText(batch));
  }
  return elements;
}

std::vector<std::string> Collect(const Dataset& ds) { return Collect(*Start(ds)); }

absl::Status FirstError(const Dataset& ds) {
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = kThreads});
  if (!it.ok()) return it.status();
  while (true) {
    Batch batch;
    absl::Status status = (*it)->Next(&batch);
    if (!status.ok() || batch.empty()) return status;
  }
}

Dataset Square(const Dataset& ds) {
  return ds.Map({{"square", DType::kInt64, {}}}, [](RowContext& row) {
    const int64_t value = row.In<int64_t>(0)[0];
    row.Out<int64_t>(0)[0] = value * value;
    return absl::OkStatus();
  });
}

Dataset Odd(const Dataset& ds) {
  return ds.Filter([](RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 1; });
}

// Row i has i mod 5 values of i.
Dataset Ragged(const Dataset& ds) {
  return ds.Map({{"values", DType::kInt64, {}, true}}, [](RowContext& row) {
    const int64_t value = row.In<int64_t>(0)[0];
    for (int64_t& out : row.Extend<int64_t>(0, value % 5)) out = value;
    return absl::OkStatus();
  });
}

TEST(DatasetTest, BatchesAreInTheMemoryOfTheAllocator) {
  std::mutex mutex;
  std::map<const char*, size_t> blocks;
  const HostAllocator allocator = [&](size_t size) {
    std::shared_ptr<char> memory(new (std::align_val_t{64}) char[size],
                                 [](char* p) { ::operator delete[](p, std::align_val_t{64}); });
    std::lock_guard<std::mutex> lock(mutex);
    blocks[memory.get()] = size;
    return memory;
  };
  const auto within = [&](const void* p) {
    std::lock_guard<std::mutex> lock(mutex);
    const char* at = static_cast<const char*>(p);
    auto it = blocks.upper_bound(at);
    return it != blocks.begin() && at < (--it)->first + it->second;
  };
  // Steps and batching as one stage, and a batch of what a filter left.
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
    const std::string state = *it->State();
    Batch one;
    EXPECT_OK(it->Next(&one));
    if (one.empty()) break;
    EXPECT_EQ(one.Row<int64_t>(0, 0)[0], next);
    EXPECT_OK(it->Load(state));
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
               "column 'values': a row has 4 elements, more than the 3 to pad to");
  // Ragged rows behind a filter, and of batches that are cut again.
  EXPECT_THAT(Collect(Odd(Ragged(Dataset::Range(0, 10))).Batch(2).Unbatch().Skip(1).Batch(3)),
              ElementsAre(R"({"value":[3,5,7],"values":[[3,3,3],[],[7,7]]})",
                          R"({"value":[9],"values":[[9,9,9,9]]})"));
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
  // Each epoch anew.
  const std::vector<std::string> twice = Collect(ds.Repeat(2));
  ASSERT_EQ(twice.size(), 2000);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), twice.begin()));
  EXPECT_FALSE(std::equal(first.begin(), first.end(), twice.begin() + 1000));
  EXPECT_EQ(Collect(Dataset::Range(0, 100).Batch(7).Shuffle(1, 4)).size(), 15);
}

TEST(DatasetTest, BucketsGatherRowsOfLikeLength) {
  const Dataset ds = Ragged(Dataset::Range(0, 12)).Select({"values"});
  EXPECT_THAT(Collect(ds.BucketByLength("values", {2, 4}, {3, 2, 1})),
              ElementsAre(R"({"values":[[2,2],[3,3,3]]})", R"({"values":[[4,4,4,4]]})",
                          R"({"values":[[],[1],[]]})", R"({"values":[[7,7],[8,8,8]]})",
                          R"({"values":[[9,9,9,9]]})", R"({"values":[[6],[],[11]]})"));
  // Rows times the longest stays within the budget.
  EXPECT_THAT(Collect(ds.BatchByLength("values", 6)),
              ElementsAre(R"({"values":[[],[1],[2,2]]})", R"({"values":[[3,3,3]]})",
                          R"({"values":[[4,4,4,4]]})", R"({"values":[[],[6],[7,7]]})",
                          R"({"values":[[8,8,8]]})", R"({"values":[[9,9,9,9]]})",
                          R"({"values":[[],[11]]})"));
}

TEST(DatasetTest, PackingPutsSequencesEndToEnd) {
  const Dataset ds =
      Ragged(Dataset::Range(1, 7)).Pack("values", {.length = 6, .open = 2, .pad = -1});
  EXPECT_EQ(RowSpecText(ds.spec()),
            "values: int64 [6], values_segment_ids: int32 [6], values_positions: int32 [6]");
  EXPECT_THAT(Collect(ds.Select({"values", "values_segment_ids"})),
              ElementsAre(R"({"values":[1,2,2,3,3,3],"values_segment_ids":[1,2,2,3,3,3]})",
                          R"({"values":[4,4,4,4,6,-1],"values_segment_ids":[1,1,1,1,2,0]})"));
  EXPECT_FAILS(FirstError(Ragged(Dataset::Range(0, 9)).Pack("values", {.length = 3})),
               kInvalidArgument,
               "element 4 of epoch 0: pack: column 'values': a sequence of 4 elements does not fit "
               "into a row of 3");
}

TEST(DatasetTest, TheCacheIsFilledOnce) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  const Dataset ds = Dataset::Range(0, 100).Map({}, [calls](RowContext&) {
    ++*calls;
    return absl::OkStatus();
  });
  EXPECT_EQ(Collect(ds.Cache().Repeat(3)).size(), 300);
  EXPECT_EQ(*calls, 100);
  EXPECT_FAILS(FirstError(Dataset::Range(0, 100000).Cache(1000)), kResourceExhausted,
               "the elements take more than 1000 bytes");
  // Two ways to it in one run.
  const Dataset cached = ds.Cache();
  EXPECT_EQ(Collect(Dataset::Zip({cached, Square(cached).Select({"square"})}).Repeat(2)).size(),
            200);
}

// Random numbers, a ragged column and bytes.
Dataset Noisy(const Dataset& ds) {
  return Ragged(ds).Map({{"noise", DType::kFloat64, {2}}, {"text", DType::kBytes, {2}}},
                        [](RowContext& row) {
                          for (double& noise : row.Out<double>(0)) noise = row.random().Uniform();
                          const auto text = row.Out<std::string_view>(1);
                          text[0] = row.In<int64_t>(0)[0] % 2 == 0 ? "even" : "";
                          text[1] = "some text";
                          return absl::OkStatus();
                        });
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(DatasetTest, CachesDeliverWhatWasMade) {
  const TestFolder folder;
  const Dataset rows = Noisy(Dataset::Range(0, 3000)).Shuffle(1, 100);
  const Dataset batches = rows.PaddedBatch(7);
  for (const Dataset& ds : {rows, batches}) {
    const std::vector<std::string> once = Collect(ds);
    std::vector<std::string> twice = once;
    twice.insert(twice.end(), once.begin(), once.end());
    EXPECT_EQ(Collect(ds.Cache().Repeat(2)), twice);
    auto it = Start(ds.CacheOnDisk(folder.path()).Repeat(2));
    EXPECT_EQ(Collect(*it), twice);
    EXPECT_THAT(FilesIn(folder.path()), ElementsAre());
  }
  // Random steps behind a cache go on.
  const std::vector<std::string> epochs = Collect(Noisy(Dataset::Range(0, 50).Cache()).Repeat(2));
  EXPECT_EQ(epochs, Collect(Noisy(Dataset::Range(0, 50)).Repeat(2)));
  EXPECT_FAILS(FirstError(rows.CacheOnDisk(folder.path(), 10000)), kResourceExhausted,
               "shardfeed-cache: the elements take more than 10000 bytes");
  EXPECT_FAILS(FirstError(rows.CacheOnDisk(folder / "none")), kNotFound, folder / "none");
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre());
}

TEST(DatasetTest, ASnapshotIsMadeOnce) {
  const TestFolder folder;
  auto calls = std::make_shared<std::atomic<int>>(0);
  const Dataset made = Noisy(Dataset::Range(0, 2000).Map({}, [calls](RowContext&) {
                         ++*calls;
                         return absl::OkStatus();
                       })).Batch(7);
  const Dataset ds = made.Snapshot(folder / "s");
  const std::vector<std::string> all = Collect(made);
  *calls = 0;
  // A run that ends before leaves nothing.
  Collect(*Start(ds), 100);
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre());
  EXPECT_GT(calls->exchange(0), 0);
  EXPECT_EQ(Collect(ds), all);
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre("s"));
  EXPECT_EQ(calls->exchange(0), 2000);
  EXPECT_EQ(Collect(ds), all);
  EXPECT_EQ(*calls, 0);
  // A state of the run that wrote it serves the one that reads it.
  folder.Write("s2", testing::ReadBytes(folder / "s"));
  std::filesystem::remove(folder / "s");
  auto writing = Start(ds);
  Collect(*writing, 123);
  const std::string state = *writing->State();
  folder.Write("s", testing::ReadBytes(folder / "s2"));
  auto reading = Start(ds);
  ASSERT_OK(reading->Load(state));
  EXPECT_EQ(Collect(*reading), std::vector(all.begin() + 123, all.end()));
  EXPECT_EQ(Collect(ds.Unbatch().Skip(500).Take(3)).size(), 3);
}

TEST(DatasetTest, SnapshotsThatCannotBeReadSaySo) {
  const TestFolder folder;
  const Dataset ds = Noisy(Dataset::Range(0, 2000)).Batch(7);
  Collect(ds.Snapshot(folder / "s"));
  const std::string bytes = testing::ReadBytes(folder / "s");
  EXPECT_FAILS(FirstError(ds.Skip(1).Snapshot(folder / "s")), kFailedPrecondition,
               "s: a snapshot of another chain or other data");
  EXPECT_FAILS(FirstError(ds.Shard(0, 2).Snapshot(folder / "s")), kFailedPrecondition, "another");
  // Any byte that is not what was written, and any end that is missing.
  for (size_t at = 0; at < bytes.size(); at += 4999) {
    std::string damaged = bytes;
    damaged[at] ^= 0x40;
    folder.Write("s", damaged);
    EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kDataLoss, "delete the file");
    folder.Write("s", bytes.substr(0, at));
    EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kDataLoss, "delete the file");
  }
  std::string frame;
  AppendFrame("{}", &frame);
  folder.Write("s", frame);
  EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kDataLoss, "not a snapshot of shardfeed");
  frame.clear();
  AppendFrame(R"({"format":"shardfeed snapshot","version":7})", &frame);
  folder.Write("s", frame);
  EXPECT_FAILS(FirstError(ds.Snapshot(folder / "s")), kFailedPrecondition,
               "of version 7; this shardfeed reads version 1");
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

TEST(DatasetTest, OutOfOrderDeliversAll) {
  const Dataset ds = Square(Dataset::Range(0, 20000)).Batch(16);
  EXPECT_THAT(Collect(*Start(ds, /*deterministic=*/false)), UnorderedElementsAreArray(Collect(ds)));
  EXPECT_FAILS(Start(ds, false)->State().status(), kFailedPrecondition, "deterministic = false");
}

TEST(DatasetTest, GeneratorsMayWaitForTheConsumer) {
  const auto spec = std::make_shared<const RowSpec>(RowSpec{{"n", DType::kInt64, {}}});
  auto delivered = std::make_shared<std::atomic<int64_t>>(0);
  const auto answering = [spec, delivered]() -> Generator {
    return [spec, delivered, n = int64_t{0}]() mutable -> absl::StatusOr<Batch> {
      Batch rows;
      if (n == 300) return rows;
      while (*delivered < n) std::this_thread::yield();
      rows.rows = 1;
      rows.spec = spec;
      AllocateFixedColumns(&rows);
      *reinterpret_cast<int64_t*>(rows.columns[0].data) = n++;
      return rows;
    };
  };
  const auto it = Dataset::FromGenerator(answering, *spec)
                      .Map({}, [](RowContext&) { return absl::OkStatus(); })
                      .Batch(1)
                      .Start({.threads = 2});
  ASSERT_OK(it);
  Batch batch;
  for (int64_t n = 0; n < 300; ++n) {
    ASSERT_OK((*it)->Next(&batch));
    ASSERT_EQ(batch.Row<int64_t>(0, 0)[0], n);
    ++*delivered;
  }
  ASSERT_OK((*it)->Next(&batch));
  EXPECT_TRUE(batch.empty());
}

TEST(DatasetTest, GeneratorsAreDeclared) {
  const RowSpec spec = {{"n", DType::kInt64, {}}};
  const auto counting = [spec](int64_t batches) {
    return [spec, batches]() -> Generator {
      return [spec, batches, i = int64_t{0}]() mutable -> absl::StatusOr<Batch> {
        Batch batch;
        if (i == batches) return batch;
        batch.spec = std::make_shared<const RowSpec>(spec);
        batch.rows = 2;
        AllocateFixedColumns(&batch);
        auto* values = reinterpret_cast<int64_t*>(batch.columns[0].data);
        values[0] = 2 * i;
        values[1] = 2 * i + 1;
        ++i;
        return batch;
      };
    };
  };
  EXPECT_THAT(Collect(Dataset::FromGenerator(counting(3), spec).Batch(4)),
              ElementsAre(R"({"n":[0,1,2,3]})", R"({"n":[4,5]})"));
  EXPECT_FAILS(FirstError(Dataset::FromGenerator(counting(3), {{"m", DType::kInt64, {}}})),
               kInvalidArgument, "it gives n: int64, but was declared to give m: int64");
  EXPECT_FAILS(FirstError(Dataset::FromGenerator(
                   []() -> Generator {
                     return []() -> absl::StatusOr<Batch> { throw std::runtime_error("no more"); };
                   },
                   spec)),
               kInternal, "generator: no more");
}

TEST(DatasetTest, GeneratorsThatDoNotReturnHoldUpNothing) {
  struct Gate {
    std::atomic<bool> open = false;
    std::atomic<int> calls = 0;
  };
  const RowSpec spec = {{"n", DType::kInt64, {}}};
  for (const bool direct : {true, false}) {
    auto gate = std::make_shared<Gate>();
    const auto make = [spec, gate]() -> Generator {
      return [spec, gate]() -> absl::StatusOr<Batch> {
        if (++gate->calls == 3) {
          while (!gate->open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        Batch batch;
        batch.spec = std::make_shared<const RowSpec>(spec);
        batch.rows = 1;
        AllocateFixedColumns(&batch);
        *reinterpret_cast<int64_t*>(batch.columns[0].data) = gate->calls;
        return batch;
      };
    };
    Dataset ds = Dataset::FromGenerator(make, spec);
    if (!direct) ds = ds.Map({}, [](RowContext&) { return absl::OkStatus(); });
    auto it = Start(ds);
    // What is there is delivered while the third call does not return.
    EXPECT_THAT(Collect(*it, 2), ElementsAre(R"({"n":1})", R"({"n":2})"));
    std::thread canceller([&] {
      while (gate->calls < 3) std::this_thread::yield();
      it->Cancel();
    });
    Batch batch;
    EXPECT_FAILS(it->Next(&batch), kCancelled, "the run was cancelled");
    canceller.join();
    it = nullptr;
    EXPECT_EQ(gate->calls, 3);
    // The thread that was left drops what the call gives, and calls no more.
    gate->open = true;
  }
}

// A column "key": the first column modulo `of`.
Dataset Modulo(const Dataset& ds, int64_t of) {
  return ds.Map({{"key", DType::kInt64, {}}}, [of](RowContext& row) {
    row.Out<int64_t>(0)[0] = row.In<int64_t>(0)[0] % of;
    return absl::OkStatus();
  });
}

// A column "total" of the sum of the first column so far.
Dataset Total(const Dataset& ds) {
  return ds.Scan({{"total", DType::kInt64, {}}}, []() -> FlatMapFn {
    return [total = std::make_shared<int64_t>(0)](const Batch& in, size_t row, RowEmitter& out) {
      *total += in.Row<int64_t>(0, row)[0];
      out.Begin();
      out.Out<int64_t>(0)[0] = *total;
      return absl::OkStatus();
    };
  });
}

// Fails where the first column is `remainder` modulo `of`, with something written already.
Dataset Failing(const Dataset& ds, int64_t of, int64_t remainder,
                const std::string& name = "part") {
  return ds.Map({{name, DType::kInt64, {}, true}, {name + " of", DType::kInt64, {}}},
                [of, remainder](RowContext& row) -> absl::Status {
                  const int64_t value = row.In<int64_t>(0)[0];
                  for (int64_t& out : row.Extend<int64_t>(0, value % 3)) out = value;
                  row.Out<int64_t>(1)[0] = value;
                  if (value % of != remainder) return absl::OkStatus();
                  return absl::DataLossError("value " + std::to_string(value) + " fails");
                });
}

// The first column modulo `of`.
NumberFn Remainder(int64_t of) {
  return [of](RowContext& row) { return row.In<int64_t>(0)[0] % of; };
}

// Chains with all that holds rows for a while.
std::vector<std::pair<std::string, Dataset>> Chains() {
  const Dataset rows = Ragged(Odd(Square(Dataset::Range(0, 1000))));
  const Dataset mixed = Dataset::Mix({rows, rows.Skip(200), rows.Take(50)}, {3, 2, 1}, 9,
                                     {Exhausted::kDrop, Exhausted::kDrop, Exhausted::kRepeat})
                            .Take(700);
  const auto counting = []() -> Generator {
    return [i = 0]() mutable -> absl::StatusOr<Batch> {
      Batch batch;
      batch.spec = std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}});
      batch.rows = i++ < 100 ? 7 : 0;
      AllocateFixedColumns(&batch);
      for (size_t r = 0; r < batch.rows; ++r) {
        reinterpret_cast<int64_t*>(batch.columns[0].data)[r] = i * 7 + static_cast<int64_t>(r);
      }
      return batch;
    };
  };
  // 0, 1, 1, 2, 0, 2, 0
  const Dataset numbers =
      Dataset::Range(0, 7).Map({{"value", DType::kInt64, {}}}, [](RowContext& row) {
        constexpr std::array<int64_t, 7> kNumbers = {0, 1, 1, 2, 0, 2, 0};
        row.Out<int64_t>(0)[0] = kNumbers[row.In<int64_t>(0)[0]];
        return absl::OkStatus();
      });
  return {
      {"rows", rows},
      {"batch", rows.Batch(17)},
      {"padded", rows.PaddedBatch(17).Prefetch(3)},
      {"unbatch", rows.Batch(17).Unbatch().Skip(3).Batch(5)},
      {"shuffle", rows.Shuffle(1, 100).Batch(11)},
      {"batches", rows.Batch(10).Shuffle(2, 7)},
      {"repeat", rows.Skip(300).Shuffle(3, 64).Repeat(3).Batch(13)},
      {"repeat of steps", Noisy(Noisy(rows).Repeat(3)).Batch(37)},
      {"bucket", rows.BucketByLength("values", {1, 3}, {5, 9, 30}).Pad()},
      {"budget", rows.BatchByLength("values", 50)},
      {"pack", rows.Pack("values", {.length = 9, .open = 5}).Batch(4)},
      {"zip", Dataset::Zip({rows.Select({"values"}), Dataset::Range(0, 400)}).Batch(8)},
      {"concatenate", Dataset::Concatenate({rows, rows.Take(20), rows}).Batch(60)},
      {"interleave", Dataset::Interleave({rows, rows.Take(20), rows.Skip(400), rows}, 2, 3)},
      {"mix", mixed.Batch(9)},
      {"shard", rows.Shard(1, 3).Enumerate().Batch(8)},
      {"cache", Noisy(rows.Shuffle(8, 90).Batch(20).Cache().Unbatch()).Repeat(2).Batch(30)},
      {"cache on disk", rows.CacheOnDisk(::testing::TempDir()).Repeat(2).Batch(30)},
      {"generator", Dataset::FromGenerator(counting, {{"value", DType::kInt64, {}}}).Batch(10)},
      {"flat_map", rows.FlatMap({{"n", DType::kInt64, {}}},
                                [](const Batch& in, size_t row, RowEmitter& out) {
                                  for (int64_t v : in.Row<int64_t>(2, row)) {
                                    out.Begin();
                                    out.Out<int64_t>(0)[0] = v;
                                  }
                                  return absl::OkStatus();
                                })
                       .Batch(21)},
      {"all", mixed.Shuffle(4, 50)
                  .Pack("values", {.length = 12, .open = 8})
                  .Batch(6)
                  .Repeat(2)
                  .Prefetch(2)},
      {"take_while", rows.TakeWhile([](RowContext& row) { return row.In<int64_t>(0)[0] < 701; })
                         .Repeat(2)
                         .Batch(9)},
      {"unique", Modulo(rows, 211).Unique("key").Repeat(2).Batch(7)},
      {"rebatch", rows.Batch(17).Rebatch(7)},
      {"scan", Total(rows).Repeat(2).Batch(9)},
      {"ignore_errors",
       Failing(Failing(rows, 100, 1).Map({}, [](RowContext&) { return absl::OkStatus(); }), 150, 7,
               "second")
           .IgnoreErrors({.share = 0.1})
           .Repeat(2)
           .Batch(9)},
      {"choose", Dataset::Choose({rows, rows.Skip(450), rows.Take(30)}, numbers.Repeat(),
                                 {Exhausted::kStop, Exhausted::kRepeat, Exhausted::kDrop})
                     .Batch(9)},
      {"mix exactly",
       Dataset::Mix({rows, rows.Skip(200), rows.Take(50)}, {3, 2, 1}, 0, {Exhausted::kDrop}, true)
           .Repeat(2)
           .Batch(9)},
      {"window", rows.Select({"value", "square"}).Window(5, 3, 2).Repeat(2).Batch(9)},
      {"whole windows", rows.Select({"value"}).Shuffle(5, 64).Window(4, 9, 1, true).Batch(3)},
      {"group_by_window", Modulo(rows, 7).GroupByWindow("key", 6).Repeat(2)},
      {"group by function", rows.GroupByWindow(
                                    [](RowContext& row) -> absl::StatusOr<std::string> {
                                      return std::to_string(row.In<int64_t>(0)[0] % 3);
                                    },
                                    8)
                                .Pad()},
      {"bucket by function", rows.BucketByLength(Remainder(10), {2, 7}, {4, 9, 5}).Pad()},
      {"rejection_resample",
       rows.RejectionResample(Remainder(4), {0, 1, 0, 3}, {}, 3).Repeat(2).Batch(9)},
      {"resample by shares",
       Modulo(rows, 3).RejectionResample("key", {1, 2, 1}, {1, 1, 1}, 3).Repeat(2).Batch(9)},
  };
}

TEST(StateTest, AnyChainGoesOnWhereItWas) {
  for (const auto& [name, ds] : Chains()) {
    SCOPED_TRACE(name);
    ASSERT_OK(ds.status());
    const std::vector<std::string> all = Collect(ds);
    ASSERT_GT(all.size(), 10);
    auto it = Start(ds);
    auto other = Start(ds);
    size_t at = 0;
    for (size_t step : {0, 1, 3, 8, 20}) {
      const std::vector<std::string> part = Collect(*it, step);
      at += part.size();
      const absl::StatusOr<std::string> state = it->State();
      ASSERT_OK(state);
      EXPECT_LT(state->size(), 2000) << *state;
      // In a new run, and in one that stands somewhere else; and saved again at once.
      auto fresh = Start(ds);
      ASSERT_OK(fresh->Load(*state));
      ASSERT_OK(other->Load(*fresh->State()));
      EXPECT_EQ(Collect(*fresh), std::vector(all.begin() + at, all.end()));
      EXPECT_EQ(Collect(*other, 2),
                std::vector(all.begin() + at, all.begin() + std::min(at + 2, all.size())));
    }
  }
}

TEST(StateTest, WrongStatesAreRefused) {
  auto it = Start(Dataset::Range(0, 10).Batch(2));
  auto other = Start(Dataset::Range(0, 11).Batch(2));
  EXPECT_FAILS(other->Load(*it->State()), kFailedPrecondition,
               "the state belongs to another chain or other data");
  EXPECT_FAILS(it->Load("hello"), kInvalidArgument, "not the state of a pipeline of shardfeed");
  std::string state = *it->State();
  state.replace(state.find("\"version\":2"), 11, "\"version\":9");
  EXPECT_FAILS(it->Load(state), kInvalidArgument, "of version 9; this shardfeed reads version 2");
  state = *it->State();
  state.replace(state.find("\"place\":["), 9, "\"place\":[1,2,3,4,5,");
  EXPECT_FAILS(it->Load(state), kInvalidArgument, "too long");
  for (const auto& [from, to] :
       {std::pair("\"place\":[", "\"place\":[-1,"), std::pair("\"place\":[", "\"place\":[0.5,"),
        std::pair("\"epoch\":", "\"epoch\":-"), std::pair("\"epoch\":0", "\"epoch\":\"0\""),
        std::pair("\"epoch\":0", "\"epoch\":0,\"ranks\":[true]")}) {
    state = *it->State();
    state.replace(state.find(from), std::strlen(from), to);
    EXPECT_FAILS(it->Load(state), kInvalidArgument, "the state is damaged");
  }
}

// Fingerprints and what is in states must not change with a version of the library, or states that
// were saved would be refused. Another number here is right only where the meaning of a step has
// changed.
TEST(StateTest, FingerprintsAndStatesStayWhatTheyAre) {
  struct Golden {
    uint64_t fingerprint;
    std::string place;  // of the state behind three elements
  };
  const std::map<std::string, Golden> golden = {
      {"rows", {0x528a171fa20fe2ea, R"("place":[3,0]})"}},
      {"batch", {0x924bff6c560d3c94, R"("place":[0,51,0]})"}},
      {"padded", {0x11177abd5e453e0e, R"("place":[0,51,0]})"}},
      {"unbatch", {0x18a1ff87e49a4a07, R"("place":[0,1,0,0,17,0]})"}},
      {"shuffle", {0xc86c4c249f41a583, R"("place":[0,33,0,0,0,0]})"}},
      {"batches", {0x14000111b1352ba7, R"("place":[0,0,3,0,0,0]})"}},
      {"repeat", {0xa580bc4bd5f01010, R"("place":[0,39,0,0,0,0,0,300,0,0]})"}},
      {"repeat of steps", {0x2a8841bfb4012fd5, R"("place":[0,111,0,0,0]})"}},
      {"bucket",
       {0x44c71616c01862cd,
        R"("place":[0,44,21,0,1,3,2,3,2,3,2,3,2,3,2,1,2,2,1,2,2,1,2,2,1,0,0]})"}},
      {"budget", {0x5b3e3f7236475661, R"("place":[0,36,0]})"}},
      {"pack", {0xc243fdd9a8613e36, R"("place":[0,0,59,3,0,49,2,4,0,0]})"}},
      {"zip", {0xfa9eb8924791b915, R"("place":[0,24,0,0,0,0]})"}},
      {"concatenate", {0xec1deadea73c7802, R"("place":[0,180,0,0]})"}},
      {"interleave", {0x2e9ab27155c58934, R"("place":[0,1,1,0,1,3,0,0]})"}},
      {"mix",
       {0x7d94ad5740297bc8, R"("place":[0,27,0,0,0,0,0,0,0,0,0,0,0,0,0,200,0,0,0,0,0,0,0,0,0]})"}},
      {"shard", {0x8b5ea97fd2b8f2e0, R"("place":[0,24,0,0,0,0,0]})"}},
      {"cache", {0xb66b5eb454d19336, R"("place":[0,10,0,1,4]})"}},
      {"cache on disk", {0x34405040ed00ca7e, R"("place":[0,90,0,0,0]})"}},
      {"generator", {0xe880fa7f46fe4a50, R"("place":[0,2,28]})"}},
      {"flat_map", {0x2d72ad992377019c, R"("place":[0,63,0]})"}},
      {"all",
       {0x47c9b4e699908c8e,
        R"("place":[0,0,1,0,111,0,111,11,2,0,100,0,0,0,0,0,0,0,0,0,0,0,0,0,200,0,0,0,0,0,0,0,0,0]})"}},
      {"take_while", {0x809b66f59bad4b56, R"("place":[0,12,0,1,0,15,0]})"}},
      {"unique", {0x9d8b7f454bc5a325, R"("place":[0,6,0,1,15]})"}},
      {"rebatch", {0x864a633095b0663f, R"("place":[0,4,17,0]})"}},
      {"scan", {0x781b0dd58c82e284, R"("place":[0,12,0,1,15]})"}},
      {"ignore_errors", {0x11e525056c155240, R"("place":[0,14,0,1,15,2,15,0]})"}},
      {"choose",
       {0xf27df1ddfeedab1d,
        R"("place":[0,27,0,0,0,0,0,0,0,0,0,0,0,450,0,0,0,0,0,0,0,0,0,0,0,0,0]})"}},
      {"mix exactly",
       {0xbfa8a4c45f24fefb,
        R"("place":[0,27,0,0,0,0,0,0,0,0,0,0,0,0,0,200,0,0,0,0,0,0,0,0,0,0,0,0]})"}},
      {"window", {0xf59cea9969f81184, R"("place":[0,8,0,1,26,31,0]})"}},
      {"whole windows", {0x956344b853ddbed0, R"("place":[0,2,63,0,0,0,0,0]})"}},
      {"group_by_window",
       {0x3f7af6f9bd7ed654,
        R"("place":[0,0,1,38,20,3,0,1,1,1,4,1,1,1,4,1,1,1,4,1,1,1,4,1,1,1,3,0]})"}},
      {"group by function", {0x9a260afa8915cc8a, R"("place":[0,24,0,24,24,0]})"}},
      {"bucket by function", {0x4fdec9074c200da4, R"("place":[0,22,4,7,7,4,1,1,7,0]})"}},
      {"rejection_resample", {0x74b837f9fa095c49, R"("place":[0,5,0,1,32,0,16,0,16,32,0]})"}},
      {"resample by shares", {0x6955fbebce83b564, R"("place":[0,8,0,1,31,31,0]})"}},
      // GOLDEN
  };
  for (const auto& [name, ds] : Chains()) {
    SCOPED_TRACE(name);
    auto it = Start(ds);
    const std::vector<std::string> all = Collect(*it);
    it = Start(ds);
    Collect(*it, 3);
    std::string state = *it->State();
    const size_t at = state.find("\"place\":");
    const auto known = golden.find(name);
    ASSERT_TRUE(known != golden.end() && known->second.fingerprint == *ds.Fingerprint())
        << fmt::format("{{\"{}\", {{0x{:016x}, R\"({})\"}}}},", name, *ds.Fingerprint(),
                       state.substr(at));
    // One of several texts that mean this place.
    state.replace(at, std::string::npos, known->second.place);
    ASSERT_OK(it->Load(state));
    EXPECT_EQ(Collect(*it), std::vector(all.begin() + 3, all.end()));
  }
}

TEST(StateTest, EachParameterChangesTheFingerprint) {
  const Dataset rows = Ragged(Dataset::Range(0, 20));
  const auto nothing = [](RowContext&) { return absl::OkStatus(); };
  Batch two;
  two.rows = 2;
  two.spec = std::make_shared<const RowSpec>(RowSpec{{"n", DType::kInt64, {}}});
  AllocateFixedColumns(&two);
  auto* const values = reinterpret_cast<int64_t*>(two.columns[0].data);
  values[0] = values[1] = 7;
  const auto copy = [&](int64_t last) {
    Batch other = two;
    AllocateFixedColumns(&other);
    auto* const copied = reinterpret_cast<int64_t*>(other.columns[0].data);
    copied[0] = 7;
    copied[1] = last;
    return Dataset::Rows(other);
  };
  EXPECT_EQ(*copy(7).Fingerprint(), *Dataset::Rows(two).Fingerprint());
  const std::vector<Dataset> different = {
      copy(7),
      copy(8),
      rows,
      rows.Take(5),
      rows.Take(6),
      rows.Skip(5),
      rows.Map({}, nothing),
      rows.Map({}, nothing, {}, 1),
      rows.Map({}, nothing, {"value"}),
      rows.Map({}, nothing, {}, 0, "2"),
      rows.Filter([](RowContext&) { return true; }),
      rows.Filter([](RowContext&) { return true; }, 0, "2"),
      rows.Batch(4),
      rows.Batch(5),
      rows.Batch(4, true),
      rows.PaddedBatch(4),
      rows.PaddedBatch(4, {{"values", {.length = 9}}}),
      rows.PaddedBatch(4, {{"values", {.value = -1}}}),
      rows.Batch(4).Sparse({"values"}),
      rows.Pack("values", {.length = 9}),
      rows.Pack("values", {.length = 9, .open = 5}),
      rows.Pack("values", {.length = 9, .pad = 1}),
      rows.Pack("values", {.length = 9, .truncate = true}),
      rows.BucketByLength("values", {2}, {3, 4}),
      rows.BucketByLength("values", {2}, {3, 4}, true),
      rows.BatchByLength("values", 9),
      rows.Shuffle(1, 5),
      rows.Shuffle(2, 5),
      rows.Repeat(2),
      rows.Enumerate("index"),
      rows.Enumerate("index", 1),
      rows.Shard(0, 2),
      Dataset::Mix({rows, rows}, {1, 2}),
      Dataset::Mix({rows, rows}, {1, 2}, 1),
      Dataset::Mix({rows, rows}, {1, 2}, 0, {Exhausted::kStop}),
      Dataset::Concatenate({rows, rows}),
      Dataset::Interleave({rows, rows}, 2),
      Dataset::Interleave({rows, rows}, 2, 3),
      rows.TakeWhile([](RowContext&) { return true; }),
      rows.TakeWhile([](RowContext&) { return true; }, "2"),
      rows.Unique("value"),
      Modulo(rows, 2).Unique("key"),
      Modulo(rows, 2).Unique("value"),
      Total(rows),
      rows.Scan({{"total", DType::kInt64, {}}}, nullptr, "2"),
      rows.Map({}, nothing).IgnoreErrors(),
      Dataset::Mix({rows, rows}, {1, 2}, 0, {Exhausted::kDrop}, true),
      Dataset::Choose({rows, rows}, Dataset::Range(0, 2)),
      Dataset::Choose({rows, rows}, Dataset::Range(0, 2), {Exhausted::kDrop}),
      Dataset::Choose({rows, rows}, Dataset::Range(0, 2).Repeat()),
      rows.Select({"value"}).Window(4),
      rows.Select({"value"}).Window(5),
      rows.Select({"value"}).Window(4, 2),
      rows.Select({"value"}).Window(4, 4, 2),
      rows.Select({"value"}).Window(4, 4, 1, true),
      rows.GroupByWindow("value", 4),
      rows.GroupByWindow("value", 5),
      rows.GroupByWindow("value", 4, true),
      rows.GroupByWindow(KeyFn(), 4),
      rows.GroupByWindow(KeyFn(), 4, false, "2"),
      rows.BucketByLength(NumberFn(), {2}, {3, 4}),
      rows.BucketByLength(NumberFn(), {2}, {3, 4}, false, "2"),
      rows.RejectionResample("value", {1, 2}),
      rows.RejectionResample("value", {1, 3}),
      rows.RejectionResample("value", {1, 2}, {1, 1}),
      rows.RejectionResample("value", {1, 2}, {}, 1),
      rows.RejectionResample(NumberFn(), {1, 2}),
      // A name that looks like a step is a name.
      Dataset::Range(0, 20, 1, "x.batch(2)"),
      Dataset::Range(0, 20, 1, "x").Batch(2),
  };
  std::map<uint64_t, std::string> seen;
  for (const Dataset& ds : different) {
    ASSERT_OK(ds.status());
    const auto [at, added] = seen.emplace(*ds.Fingerprint(), ds.Text());
    EXPECT_TRUE(added) << at->second << " and " << ds.Text();
  }
  // What changes nothing of what is delivered.
  EXPECT_EQ(*rows.Prefetch(3).Fingerprint(), *rows.Fingerprint());
  EXPECT_EQ(*rows.Shard(1, 3).Fingerprint(), *rows.Shard(0, 2).Fingerprint());
  EXPECT_EQ(*rows.Batch(4).Rebatch(5).Fingerprint(),
            *rows.Batch(4).Unbatch().Batch(5).Fingerprint());
  // Where more errors are allowed, a run goes on.
  EXPECT_EQ(*rows.Map({}, nothing).IgnoreErrors({.at_least = 99}).Fingerprint(),
            *rows.Map({}, nothing).IgnoreErrors().Fingerprint());
}

// Loads the state of `it` with another place.
absl::Status LoadPlace(Iterator& it, const std::string& place) {
  std::string state = *it.State();
  const size_t begin = state.find("\"place\":[") + 9;
  state.replace(begin, state.find(']', begin) - begin, place);
  return it.Load(state);
}

TEST(StateTest, PlacesThatNoChainSavesAreRefused) {
  const Dataset range = Dataset::Range(0, 10);
  const auto fails = [](const Dataset& ds, const std::string& place, int number, uint64_t found,
                        uint64_t most) {
    auto it = Start(ds);
    const std::string message = "the state is damaged: number " + std::to_string(number) +
                                " of its place is " + std::to_string(found) +
                                ", expected at most " + std::to_string(most);
    EXPECT_FAILS(LoadPlace(*it, place), kInvalidArgument, message);
    Batch batch;
    EXPECT_FAILS(it->Next(&batch), kInvalidArgument, message);
  };
  fails(range, "0,11", 1, 11, 10);
  fails(range, "4294967296,0", 0, 4294967296, 4294967295);
  fails(range.Take(5), "0,6,0,0", 1, 6, 5);
  fails(range.Skip(5), "0,6,0,0", 1, 6, 5);
  fails(range.Shuffle(1, 4), "0,0,4,0,0", 2, 4, 3);
  fails(range.Repeat(2), "0,3,0,0", 1, 3, 2);
  fails(range.Repeat(2), "0,0,2,0", 2, 2, 1);
  fails(Dataset::Concatenate({range, range}), "0,3,0", 1, 3, 2);
  const Dataset interleaved = Dataset::Interleave({range, range, range}, 2, 3);
  fails(interleaved, "0,4,0,0,0,0", 1, 4, 3);
  fails(interleaved, "0,2,2,0,0,0", 2, 2, 1);
  fails(interleaved, "0,2,0,3,0,0", 3, 3, 2);
  fails(interleaved, "0,2,0,0,4,0", 4, 4, 3);
  // Rows that wait are numbered below the next one.
  const Dataset buckets = Ragged(range).BucketByLength("values", {1}, {2, 2});
  fails(buckets, "0,5,6,0,0,0", 2, 6, 5);
  fails(buckets, "0,5,1,5,0,0", 3, 5, 4);
  fails(buckets, "0,5,1,3,2,0,0", 4, 2, 1);
}

TEST(StateTest, PlacesBehindTheEndAreErrors) {
  const Dataset range = Dataset::Range(0, 10);
  const auto fails = [](const Dataset& ds, const std::string& place, int elements) {
    auto it = Start(ds);
    // Load tells it where it has to read.
    absl::Status status = LoadPlace(*it, place);
    Batch batch;
    for (int i = 0; i < 20 && status.ok(); ++i) status = it->Next(&batch);
    EXPECT_FAILS(status, kFailedPrecondition,
                 "the state stands " + std::to_string(elements) +
                     " elements behind the end of the data: it is damaged, or the chain gives "
                     "fewer elements than when it was saved");
  };
  fails(range, "11,0", 1);
  fails(range, "3,10", 3);
  fails(range.Shuffle(1, 4), "0,2,3,0,8", 1);
  fails(range.Cache(), "0,12", 2);
  fails(Ragged(range).BucketByLength("values", {1}, {2, 2}), "0,20,1,3,0,0,0", 7);
  const auto seven = []() -> Generator {
    return [i = 0]() mutable -> absl::StatusOr<Batch> {
      Batch batch;
      batch.spec = std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}});
      batch.rows = i++ == 0 ? 7 : 0;
      AllocateFixedColumns(&batch);
      return batch;
    };
  };
  fails(Dataset::FromGenerator(seven, {{"value", DType::kInt64, {}}}), "0,8", 1);
}

TEST(StateTest, LoadDropsWhatAnErrorLeftBehind) {
  const Dataset rows =
      Ragged(Dataset::Range(0, 10000)).Map({}, [](RowContext& row) -> absl::Status {
        if (row.In<int64_t>(0)[0] < 7000) return absl::OkStatus();
        return absl::DataLossError("returned");
      });
  for (const Dataset& ds : {rows.Batch(300), rows.BatchByLength("values", 1200)}) {
    auto it = Start(ds);
    const std::string begin = *it->State();
    const std::vector<std::string> first = Collect(*it, 1);
    absl::Status status;
    Batch batch;
    while (status.ok()) status = it->Next(&batch);
    EXPECT_FAILS(status, kDataLoss, "returned");
    ASSERT_OK(it->Load(begin));
    EXPECT_EQ(Collect(*it, 1), first);
  }
}

TEST(RangeTest, ValuesMayLieAsFarApartAsInt64Allows) {
  EXPECT_THAT(Collect(Dataset::Range(INT64_MIN, INT64_MAX, INT64_MAX)),
              ElementsAre(R"({"value":-9223372036854775808})", R"({"value":-1})",
                          R"({"value":9223372036854775806})"));
  EXPECT_THAT(Collect(Dataset::Range(INT64_MAX, INT64_MIN, INT64_MIN)),
              ElementsAre(R"({"value":9223372036854775807})", R"({"value":-1})"));
}

TEST(EnumerateTest, NumbersThatDoNotFitAreAnError) {
  EXPECT_FAILS(FirstError(Dataset::Range(0, 10).Enumerate("index", INT64_MAX - 8)),
               kInvalidArgument,
               "enumerate: element 9, counted from 9223372036854775799, has a number that int64 "
               "does not hold");
}

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
               kInternal, "column 'value' holds int64, not float32");
  EXPECT_FAILS(
      FirstError(Dataset::Range(0, 9).Batch(3).MapBatch({{"value", DType::kInt64, {}}},
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
                                        [](const Batch&, size_t row, RowEmitter& out) {
                                          out.Begin();
                                          out.Extend<int64_t>(0, row == 3 ? 1ul << 60 : 1);
                                          return absl::OkStatus();
                                        })),
               kResourceExhausted, "flat_map: column 'x': 1152921504606846976 elements");
  const Dataset large = range.Map({{"image", DType::kUInt8, {1l << 31, 1l << 31}}},
                                  [](RowContext&) { return absl::OkStatus(); });
  for (const Dataset& ds : {large, large.Batch(4)}) {
    EXPECT_FAILS(FirstError(ds), kResourceExhausted,
                 "element 0 of epoch 0: map: column 'image': rows of 4611686018427387904 bytes do "
                 "not fit into memory");
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
      Dataset::Rows(rows, [](uint64_t row) { return "picture " + std::to_string(10 * row); });
  const auto fail = [](RowContext& row) {
    return row.In<int64_t>(0)[0] == 3 ? absl::DataLossError("is black") : absl::OkStatus();
  };
  EXPECT_FAILS(FirstError(ds.Map({}, fail)), kDataLoss, "picture 30: is black");
}

TEST(ErrorTest, ChainsThatCannotBeSaySo) {
  const Dataset range = Dataset::Range(0, 10);
  const auto fails = [](const Dataset& ds, std::string_view message) {
    EXPECT_FAILS(ds.status(), kInvalidArgument, message);
    EXPECT_FAILS(ds.Batch(3).Take(1).Start().status(), kInvalidArgument, message);
  };
  fails(range.Batch(0), "batch: the size must lie between 1 and 2147483647; it is 0");
  fails(range.Batch(2).Batch(2), "are batches already: unbatch first");
  fails(range.Unbatch(), "are rows already");
  fails(Square(range.Batch(2)), "map: works on rows, but the elements here are batches");
  fails(range.Select({"x"}), "there is no column 'x'; there are: value: int64");
  fails(range.Batch(2).TakeWhile(nullptr), "take_while: works on rows");
  fails(range.Unique("x"), "unique: there is no column 'x'; there are: value: int64");
  fails(range.Batch(2).Unique("value"), "unique: works on rows");
  fails(Ragged(range).Unique("values"),
        "unique: column 'values' must have one number, or one value of bytes, in a row; it is "
        "values: int64 ragged");
  fails(Total(range.Batch(2)), "scan: works on rows");
  fails(range.Rebatch(2), "rebatch: the elements here are rows");
  fails(range.Batch(2).Rebatch(0), "rebatch: the size must lie between 1 and 2147483647; it is 0");
  fails(Ragged(range).PaddedBatch(2).Rebatch(3), "rebatch: column 'values' is padded to another");
  fails(range.IgnoreErrors(),
        "ignore_errors: it is for errors of the steps on rows directly before "
        "it, such as parse, decode_image, map and filter; 'range' is none");
  fails(Square(range).Repeat(2).IgnoreErrors(), "'repeat' is none");
  fails(Square(range).IgnoreErrors({.share = std::nan("")}), "lies between 0 and 1; it is nan");
  fails(Dataset::Choose({}, range), "choose: there are no datasets");
  fails(Dataset::Choose({range, Square(range)}, range), "choose: the datasets have different");
  fails(Dataset::Choose({range}, range.Batch(2)),
        "choose: the choice must have rows of one int64 alone, the number of a dataset; it has "
        "batches of value: int64");
  fails(Dataset::Choose({range}, Square(range)), "it has value: int64, square: int64");
  fails(Dataset::Choose({range}, range, {Exhausted::kStop, Exhausted::kStop}), "once for all");
  for (const double weight : {std::nan(""), -1.0, static_cast<double>(INFINITY)}) {
    fails(Dataset::Mix({range, range}, {1, weight}, 0, {Exhausted::kDrop}, true), "a weight is");
  }
  fails(range.Batch(2).Window(2), "window: works on rows");
  fails(range.Window(0), "window: the size 0, the shift 0 and the stride 1 must lie between 1 and");
  fails(range.Window(UINT64_MAX), "must lie between 1 and 2147483647");
  fails(range.Window(2, 1, 0), "the stride 0 must lie");
  fails(Ragged(range).Window(2), "window: the rows of column 'values' are of any length");
  fails(range.GroupByWindow("x", 2), "group_by_window: there is no column 'x'");
  fails(range.GroupByWindow("value", 0), "the window's size must lie between 1 and 2147483647");
  fails(range.Batch(2).GroupByWindow(KeyFn(), 2), "group_by_window: works on rows");
  fails(range.BucketByLength(NumberFn(), {2}, {1}), "1 boundaries in rising order take 2");
  fails(range.RejectionResample("x", {1}), "rejection_resample: there is no column 'x'");
  fails(
      range.RejectionResample("value", {}),
      "rejection_resample: target_dist must have a share for each class, none below 0 and not all "
      "0; it is []");
  fails(range.RejectionResample("value", {0, 0}), "it is [0, 0]");
  fails(range.RejectionResample("value", {1, std::nan("")}), "it is [1, nan]");
  fails(range.RejectionResample("value", {1}, {-1}), "initial_dist must have");
  fails(range.RejectionResample("value", {1}, {1, 1}), "has 1 classes, and initial_dist 2");
  fails(range.RejectionResample("value", {1, 1}, {1, 0}), "class 1 is wanted, but by initial_dist");
  fails(range.Map({}, nullptr, {"x"}), "map: there is no column 'x'");
  fails(range.Parse({{.name = "x"}}), "there is no column 'record' of bytes");
  fails(range.Shard(3, 3), "rank 3 of 3");
  fails(range.Shuffle(1), "it needs a window");
  fails(range.Enumerate("value"), "there is a column 'value' already");
  fails(range.Pad(), "the elements here are rows");
  fails(range.Batch(2).Pad({{"value", {}}}), "there is no ragged column 'value'");
  fails(Ragged(range).Batch(2).Pad({{"values", {.value = 0.5}}}),
        "pad: column 'values' of int64 cannot hold the padding value 0.5");
  fails(Ragged(range).Batch(2).Pad({{"values", {.value = "x"}}}), "the padding value of bytes 'x'");
  fails(range.Sparse({"value"}), "sparse: the elements here are rows");
  fails(range.Batch(2).Sparse({"value"}), "sparse: there is no ragged column 'value'");
  fails(Ragged(range).Batch(2).Sparse({"values", "values"}),
        "there is a column 'values_indices' already");
  fails(range.BucketByLength("value", {2}, {1, 1}), "are all of one length");
  fails(Ragged(range).BucketByLength("values", {2}, {1}), "1 boundaries in rising order take 2");
  fails(range.Pack("value", {.length = 2}), "are all of one length");
  fails(Dataset::Zip({range, range}), "two datasets have a column 'value'");
  fails(Dataset::Concatenate({range, Square(range)}), "the datasets have different columns");
  fails(Dataset::Mix({range}, {1, 2}), "1 datasets take as many weights");
  fails(Dataset::Range(0, 1, 0), "the step must not be 0");
  fails(Dataset::Interleave({range}, 0), "at least 1");
  fails(range.InterleaveShards(2), "only shards have an order of their own");
  fails(Ragged(range).PaddedBatch(2).Unbatch(), "padded to another length in each batch");
  EXPECT_FAILS(Dataset::Shards("/nowhere/x@2").status(), kNotFound, "/nowhere");
}

class ShardsTest : public ::testing::Test {
 protected:
  // `n` examples with x, a float list of two, and n, an int64.
  std::shared_ptr<const ShardTable> Examples(int n, int shards = 3) {
    for (int s = 0; s < shards; ++s) {
      std::string shard;
      for (int i = n * s / shards; i < n * (s + 1) / shards; ++i) {
        ExampleBuilder builder;
        builder.AddInt64("n", i);
        if (i != missing_) {
          builder.AddFloatList("x", std::vector<float>{static_cast<float>(i), 0.5f});
        }
        std::string record;
        builder.SerializeExample(&record);
        AppendFrame(record, &shard);
      }
      folder_.Write(ShardName("e", s, shards, ""), shard);
    }
    return OpenTable(*ResolveSpec(folder_ / fmt::format("e@{}", shards)));
  }
  static Dataset Parsed(const Dataset& ds) {
    return ds.Parse({{.name = "n", .dtype = DType::kInt64}, {.name = "x", .shape = {2}}});
  }

  TestFolder folder_;
  int missing_ = -1;
};

TEST_F(ShardsTest, RecordsAreParsedIntoBatches) {
  const auto table = Examples(5);
  EXPECT_THAT(
      Collect(Parsed(Dataset::Shards(table)).Batch(2)),
      ElementsAre(R"({"n":[0,1],"x":[[0.0,0.5],[1.0,0.5]]})",
                  R"({"n":[2,3],"x":[[2.0,0.5],[3.0,0.5]]})", R"({"n":[4],"x":[[4.0,0.5]]})"));
  // Features of any length, and bytes that point into the records.
  EXPECT_THAT(
      Collect(Dataset::Shards(table).Parse({{.name = "x", .layout = Layout::kRagged}}).Take(1)),
      ElementsAre(R"({"x":[0.0,0.5]})"));
  EXPECT_EQ(Parsed(Dataset::Shards(table)).Batch(2).Text(), "shards(3 files).parse(n, x).batch(2)");
}

TEST_F(ShardsTest, BatchesOutliveTheRunAndTheRecipe) {
  Batch batch;
  {
    const auto table = Examples(5);
    const Dataset ds =
        Dataset::Shards(table)
            .Parse({{.name = "n", .dtype = DType::kInt64},
                    {.name = "text",
                     .dtype = DType::kBytes,
                     .default_value = FeatureValues(std::vector<std::string>{
                         "what a record has that has none of its own, longer than fits inside"})}})
            .Batch(2);
    ASSERT_OK(Start(ds)->Next(&batch));
  }
  EXPECT_EQ(batch.Row<std::string_view>(1, 1)[0],
            "what a record has that has none of its own, longer than fits inside");
  EXPECT_EQ(batch.Row<int64_t>(0, 1)[0], 1);
}

TEST_F(ShardsTest, UnindexedShardsAreTheSame) {
  const auto table = Examples(500);
  const ShardSet set = *ResolveSpec(folder_ / "e@3");
  ReaderOptions options;
  for (const EngineKind io : {EngineKind::kThreads, EngineKind::kUring}) {
    options.io = io;
    if (absl::IsUnavailable(MakeEngine({.kind = options.io}).status())) continue;
    const auto chains = [&](const auto& shards) {
      const Dataset ds = Parsed(Dataset::Shards(shards, options));
      return std::vector<Dataset>{
          ds.Batch(7),
          ds.Repeat(2).Batch(300),
          Parsed(Dataset::Shards(shards, options).InterleaveShards(2).Shard(1, 2)).Batch(7),
          Parsed(Dataset::Shards(shards, options).Shuffle(3).Repeat(2)).Batch(50),
          ds.Map({}, [](RowContext&) { return absl::OkStatus(); }).Take(120),
          Dataset::Concatenate({ds, ds})};
    };
    const std::vector<Dataset> indexed = chains(table);
    for (size_t i = 0; i < indexed.size(); ++i) {
      const std::vector<std::string> all = Collect(indexed[i]);
      for (const size_t stop : {size_t{0}, size_t{1}, all.size() - 1, all.size()}) {
        std::filesystem::remove_all(folder_ / ".shardfeed");
        auto it = Start(chains(set)[i]);
        std::vector<std::string> some = Collect(*it, stop);
        // The state goes on in either run.
        const auto state = it->State();
        ASSERT_OK(state);
        for (std::string& element : Collect(*it)) some.push_back(std::move(element));
        ASSERT_EQ(some, all);
        for (const bool again : {false, true}) {
          if (again) std::filesystem::remove_all(folder_ / ".shardfeed");
          auto other = Start(again ? chains(set)[i] : indexed[i]);
          ASSERT_OK(other->Load(*state));
          ASSERT_EQ(Collect(*other), std::vector<std::string>(all.begin() + stop, all.end()));
        }
      }
      EXPECT_EQ(*chains(set)[i].Fingerprint(), *indexed[i].Fingerprint());
    }
  }
  std::filesystem::remove_all(folder_ / ".shardfeed");
  EXPECT_EQ((*Parsed(Dataset::Shards(set)).table())->num_records(), 500);
}

TEST_F(ShardsTest, UnindexedShardsOfARunThatIsLeft) {
  Examples(2000);
  for (uint64_t elements : {0, 1, 1000}) {
    std::filesystem::remove_all(folder_ / ".shardfeed");
    auto it = Start(Parsed(Dataset::Shards(folder_ / "e@3")));
    EXPECT_EQ(Collect(*it, elements).size(), elements);
    it->Cancel();
  }
}

TEST_F(ShardsTest, ReadingIsAStageOfTheStatistics) {
  auto it = *Parsed(Dataset::Shards(Examples(1000)))
                 .Batch(10)
                 .Start({.trace = std::make_shared<Trace>()});
  Collect(*it);
  const IteratorStats stats = it->stats();
  ASSERT_EQ(stats.stages.size(), 2);
  EXPECT_EQ(stats.stages[0].name, "read");
  EXPECT_EQ(stats.stages[0].rows, 1000);
  EXPECT_GT(stats.stages[0].bytes, 1000 * 16);
  EXPECT_GT(stats.stages[0].busy_seconds, 0);
  EXPECT_GT(stats.stages[0].peak_bytes, 0);
  EXPECT_EQ(stats.stages[1].name, "parse+batch");
  EXPECT_GT(stats.stages[1].peak_bytes, 0);
}

TEST_F(ShardsTest, ErrorsNameTheRecord) {
  missing_ = 1234;
  const auto table = Examples(2000);
  EXPECT_FAILS(FirstError(Parsed(Dataset::Shards(table)).Batch(64)), kInvalidArgument,
               "e-00001-of-00003: record 568 at byte ");
  EXPECT_FAILS(FirstError(Parsed(Dataset::Shards(table).Shuffle(1)).Batch(64)), kInvalidArgument,
               "e-00001-of-00003: record 568 at byte ");
}

TEST_F(ShardsTest, ShufflesAndRanksAreThoseOfTheReader) {
  const auto table = Examples(1000);
  const Dataset all = Dataset::Shards(table).Shuffle(7, OrderSpec::kAll);
  const std::vector<std::string> global = Collect(Parsed(all));
  EXPECT_THAT(global, UnorderedElementsAreArray(Collect(Parsed(Dataset::Shards(table)))));
  for (uint64_t rank : {0, 1, 2, 3}) {
    const std::vector<std::string> mine = Collect(Parsed(all.Shard(rank, 4)));
    ASSERT_EQ(mine.size(), 250);
    for (size_t i = 0; i < mine.size(); ++i) ASSERT_EQ(mine[i], global[4 * i + rank]);
  }
  const std::vector<std::string> epochs = Collect(Parsed(all.Repeat(2)));
  ASSERT_EQ(epochs.size(), 2000);
  EXPECT_EQ(std::vector(epochs.begin(), epochs.begin() + 1000), global);
  EXPECT_NE(std::vector(epochs.begin() + 1000, epochs.end()), global);
  // Repeating behind other steps gives the same epochs.
  EXPECT_EQ(Collect(Parsed(all).Repeat(2)), epochs);
}

// Steps on rows run behind what repeats them, over batches of more than one epoch.
TEST_F(ShardsTest, RepeatedStepsKnowTheirEpochs) {
  const auto table = Examples(100);
  const Dataset once = Noisy(Parsed(Dataset::Shards(table).Shuffle(7, 30)));
  const Dataset ds = Noisy(once.Repeat(3)).Batch(37);
  const std::vector<std::string> all = Collect(ds);
  ASSERT_EQ(all.size(), 9);
  // What takes a part is not passed by.
  EXPECT_EQ(Collect(Noisy(once.Take(100).Repeat(3)).Batch(37)), all);
  const auto even = [](RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 0; };
  EXPECT_EQ(Collect(once.Filter(even).Repeat(3).Batch(7)),
            Collect(once.Take(100).Repeat(3).Filter(even).Batch(7)));
  EXPECT_THAT(Collect(once.Take(0).Repeat().Batch(7)), ElementsAre());
  auto it = Start(ds);
  for (size_t at = 1; at < all.size(); ++at) {
    Collect(*it, 1);
    auto fresh = Start(ds);
    ASSERT_OK(fresh->Load(*it->State()));
    ASSERT_EQ(Collect(*fresh), std::vector(all.begin() + at, all.end()));
  }
  // Empty shards in place of others would be cut ones.
  std::filesystem::remove_all(folder_ / ".shardfeed");
  EXPECT_THAT(Collect(Noisy(Parsed(Dataset::Shards(Examples(0)))).Repeat().Batch(7)),
              ElementsAre());
}

TEST_F(ShardsTest, StatesOfShuffledShards) {
  const auto table = Examples(1000);
  const Dataset ds = Parsed(Dataset::Shards(table).Shuffle(7, 100).Repeat(2))
                         .Filter([](RowContext& row) { return row.In<int64_t>(0)[0] % 3 > 0; })
                         .Batch(16);
  const std::vector<std::string> all = Collect(ds);
  auto it = Start(ds);
  for (size_t at = 10; at < all.size(); at += 10) {
    Collect(*it, 10);
    auto fresh = Start(ds);
    ASSERT_OK(fresh->Load(*it->State()));
    ASSERT_EQ(Collect(*fresh, 3),
              std::vector(all.begin() + at, all.begin() + std::min(at + 3, all.size())));
  }
  // Of one rank, it serves any number of ranks, of which each has other batches.
  const Dataset chain = Parsed(Dataset::Shards(table).Shuffle(7, 100));
  const std::vector<std::string> global = Collect(chain);
  const auto rank = [&](uint64_t r, uint64_t w) {
    ReaderOptions options;
    options.batch = 20 / w;
    return Parsed(Dataset::Shards(table, options).Shuffle(7, 100).Shard(r, w));
  };
  auto one = Start(rank(1, 2));
  Collect(*one, 100);  // each of two: 200 in all
  for (uint64_t r : {0, 1, 2, 3, 4}) {
    auto of_five = Start(rank(r, 5));
    ASSERT_OK(of_five->Load(*one->State()));
    EXPECT_EQ(Collect(*of_five, 1)[0], global[200 + r]);
  }
}

TEST_F(ShardsTest, ParsedFeaturesAndReadersAreInTheFingerprint) {
  const auto table = Examples(20);
  const auto parse = [&](FeatureSpec feature) {
    return Dataset::Shards(table).Parse({std::move(feature)});
  };
  const auto read = [&](const std::function<void(ReaderOptions&)>& change) {
    ReaderOptions options;
    change(options);
    return Dataset::Shards(table, options);
  };
  std::map<uint64_t, int> seen;
  int number = 0;
  for (const Dataset& ds : {
           parse({.name = "n", .dtype = DType::kInt64}),
           parse({.name = "n", .dtype = DType::kInt32}),
           parse({.name = "n", .dtype = DType::kInt64, .shape = {1}}),
           parse({.name = "n", .dtype = DType::kInt64, .layout = Layout::kRagged}),
           parse({.name = "n",
           .dtype = DType::kInt64,
           .default_value = FeatureValues(std::vector<int64_t>{3})}),
           parse({.name = "n",
           .dtype = DType::kInt64,
           .default_value = FeatureValues(std::vector<int64_t>{4})}),
           read([](ReaderOptions&) {}),
           read([](ReaderOptions& o) { o.batch = 4; }),
           read([](ReaderOptions& o) { o.end = EpochEnd::kPad; }),
           read([](ReaderOptions& o) { o.damage.skip = true; }),
           read([](ReaderOptions& o) { o.epochs = 2; }),
           read([](ReaderOptions& o) {
             o.records = {{0, 20}};
           }),
           read([](ReaderOptions& o) {
             o.records = {{0, 10}, {10, 10}};
           }),
           Dataset::Shards(table).Shuffle(1),
           Dataset::Shards(table).Shuffle(2),
           Dataset::Shards(table).Shuffle(1, 10),
           Dataset::Shards(table).InterleaveShards(2),
       }) {
    ASSERT_OK(ds.status());
    const auto [at, added] = seen.emplace(*ds.Fingerprint(), number);
    EXPECT_TRUE(added) << at->second << " and " << number;
    ++number;
  }
}

// A place is one of all ranks: any other number of ranks shares out what is left, as many records
// for each, and every record comes once.
TEST_F(ShardsTest, OtherRanksShareOutWhatIsLeft) {
  const auto table = Examples(1000);
  for (const EpochEnd end : {EpochEnd::kDrop, EpochEnd::kPad, EpochEnd::kWrap}) {
    const auto chain = [&](uint64_t rank, uint64_t world, uint64_t batch) {
      ReaderOptions options;
      options.batch = batch;
      options.end = end;
      return Parsed(Dataset::Shards(table, options).Shuffle(3, 100).Shard(rank, world))
          .Select({"n"})
          .Batch(batch);
    };
    std::map<int64_t, int> seen;
    std::string state;
    uint64_t delivered = 0;
    // (ranks, batch, batches)
    for (const auto& [world, batch, batches] : std::vector<std::array<uint64_t, 3>>{
             {4, 7, 5}, {3, 7, 9}, {5, 4, 6}, {1, 3, 7}, {7, 2, UINT64_MAX}}) {
      std::vector<std::string> states;
      std::vector<uint64_t> counts;
      for (uint64_t rank = 0; rank < world; ++rank) {
        auto it = Start(chain(rank, world, batch));
        if (!state.empty()) {
          ASSERT_OK(it->Load(state));
        }
        Batch rows;
        uint64_t count = 0;
        while (count < batches && it->Next(&rows).ok() && !rows.empty()) {
          EXPECT_EQ(rows.rows, batch);
          for (size_t i = 0; i < rows.rows - rows.padded; ++i) ++seen[rows.Row<int64_t>(0, i)[0]];
          ++count;
        }
        counts.push_back(count);
        states.push_back(*it->State());
      }
      EXPECT_THAT(counts, Each(counts[0])) << world;
      EXPECT_THAT(states, Each(states[0])) << world;
      state = states[0];
      delivered += counts[0] * batch * world;
    }
    int twice = 0;
    for (const auto& [n, times] : seen) twice += times - 1;
    const uint64_t left = 1000 - std::min<uint64_t>(delivered, 1000);
    EXPECT_EQ(seen.size(), 1000 - left);
    EXPECT_EQ(twice, end == EpochEnd::kWrap ? delivered - 1000 : 0);
    EXPECT_LT(left, end == EpochEnd::kDrop ? 14 : 1);
  }
}

TEST_F(ShardsTest, AShardBehindOtherStepsSharesOutWhatIsLeft) {
  const auto table = Examples(1000);
  const auto even = [](RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 0; };
  const auto chain = [&](uint64_t rank, uint64_t world) {
    return Parsed(Dataset::Shards(table).Shuffle(3, 100)).Filter(even).Shard(rank, world).Batch(3);
  };
  std::map<int64_t, int> seen;
  std::string state;
  for (const auto& [world, batches] :
       std::vector<std::array<uint64_t, 2>>{{4, 5}, {3, 9}, {7, UINT64_MAX}}) {
    std::string last;
    for (uint64_t rank = 0; rank < world; ++rank) {
      auto it = Start(chain(rank, world));
      if (!state.empty()) {
        ASSERT_OK(it->Load(state));
      }
      Batch rows;
      for (uint64_t n = 0; n < batches && it->Next(&rows).ok() && !rows.empty(); ++n) {
        for (size_t i = 0; i < rows.rows; ++i) ++seen[rows.Row<int64_t>(0, i)[0]];
      }
      last = *it->State();
    }
    state = last;
  }
  EXPECT_EQ(seen.size(), 500);
  for (const auto& [n, times] : seen) ASSERT_EQ(times, 1) << n;
}

TEST_F(ShardsTest, StatesOfRanksThatAdvanceUnevenlyAreTheirOwn) {
  const auto table = Examples(100);
  const auto all = [](RowContext&) { return true; };
  const auto one = [](const Batch& in, size_t row, RowEmitter& out) {
    out.Begin();
    out.Out<int64_t>(0)[0] = in.Row<int64_t>(0, row)[0];
    return absl::OkStatus();
  };
  using Steps = std::function<Dataset(const Dataset&)>;
  for (const auto& [name, steps] : std::vector<std::pair<std::string, Steps>>{
           {"filter", [&](const Dataset& ds) { return ds.Filter(all); }},
           {"flat_map",
            [&](const Dataset& ds) {
              return ds.FlatMap({{"n", DType::kInt64, {}}}, one);
            }},
           {"shuffle", [](const Dataset& ds) { return ds.Shuffle(1, 10); }},
           {"cache", [](const Dataset& ds) { return ds.Cache(); }},
           {"take", [](const Dataset& ds) { return ds.Take(90); }},
           {"choose",
            [](const Dataset& ds) {
              return Dataset::Choose({ds, ds}, Dataset::Range(0, 2).Repeat());
            }},
           {"window", [](const Dataset& ds) { return ds.Select({"n"}).Window(3, 1); }},
           {"rejection_resample",
            [](const Dataset& ds) {
              return ds.RejectionResample(Remainder(2), {1, 2});
            }},
           {"take_while", [&](const Dataset& ds) { return ds.TakeWhile(all); }},
           {"unique", [](const Dataset& ds) { return ds.Unique("n"); }},
           {"scan", [](const Dataset& ds) { return Total(ds); }},
           {"ignore_errors",
            [](const Dataset& ds) {
              return ds.Map({}, [](RowContext&) { return absl::OkStatus(); }).IgnoreErrors();
            }},
           {"skip", [](const Dataset& ds) { return ds.Skip(9); }},
           {"enumerate", [](const Dataset& ds) { return ds.Enumerate(); }},
           {"unbatch", [](const Dataset& ds) { return ds.Batch(3).Unbatch(); }},
           {"mix",
            [](const Dataset& ds) {
              return Dataset::Mix({ds, ds}, {1, 1});
            }},
           {"concatenate",
            [](const Dataset& ds) {
              return Dataset::Concatenate({ds, ds});
            }},
       }) {
    SCOPED_TRACE(name);
    const auto chain = [&](uint64_t rank, uint64_t world) {
      return steps(Parsed(Dataset::Shards(table).Shard(rank, world))).Batch(4);
    };
    auto it = Start(chain(0, 2));
    Collect(*it, 3);
    const std::string state = *it->State();
    ASSERT_OK(Start(chain(0, 2))->Load(state));
    for (const auto& [rank, world] : {std::pair(1, 2), std::pair(0, 1), std::pair(0, 3)}) {
      EXPECT_FAILS(Start(chain(rank, world))->Load(state), kFailedPrecondition,
                   fmt::format("rank {} of {}: the ranks of this chain advance unevenly, for it "
                               "has '{}'",
                               rank, world, name));
    }
  }
}

TEST_F(ShardsTest, APartOfAPartIsOne) {
  const auto table = Examples(120);
  const Dataset ds = Dataset::Shards(table);
  for (uint64_t r = 0; r < 2; ++r) {
    for (uint64_t q = 0; q < 3; ++q) {
      EXPECT_EQ(Collect(Parsed(ds.Shard(r, 2).Shard(q, 3))),
                Collect(Parsed(ds).Shard(r, 2).Shard(q, 3)));
    }
  }
}

TEST_F(ShardsTest, EveryRepetitionHasAnOrderOfItsOwn) {
  const auto table = Examples(100);
  const Dataset shuffled = Dataset::Shards(table).Shuffle(1);
  for (const Dataset& ds :
       {Parsed(shuffled.Repeat(2).Repeat(3)), Parsed(shuffled).Repeat(2).Repeat(3),
        Parsed(shuffled.Repeat(2).Take(200).Repeat(3))}) {
    const std::vector<std::string> all = Collect(ds);
    ASSERT_EQ(all.size(), 600);
    std::set<std::vector<std::string>> orders;
    for (size_t i = 0; i < 6; ++i) {
      orders.insert(std::vector(all.begin() + 100 * i, all.begin() + 100 * (i + 1)));
    }
    EXPECT_EQ(orders.size(), 6);
  }
  // A run may begin in any epoch, and a state knows which.
  const Dataset once = Noisy(Parsed(Dataset::Shards(table).Shuffle(1))).Batch(10);
  const std::vector<std::string> three = Collect(once.Repeat(3));
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto it = once.Start({.epoch = epoch});
    ASSERT_OK(it);
    std::vector<std::string> some = Collect(**it, 4);
    auto other = Start(once);
    ASSERT_OK(other->Load(*(*it)->State()));
    EXPECT_EQ(other->epoch(), epoch);
    for (std::string& element : Collect(*other)) some.push_back(std::move(element));
    EXPECT_EQ(some, std::vector(three.begin() + 10 * epoch, three.begin() + 10 * (epoch + 1)));
  }
}

TEST_F(ShardsTest, SourcesAreSharedOutInFrontOfWhatDoesNotCount) {
  const auto table = Examples(120);
  const Dataset rows = Parsed(Dataset::Shards(table));
  const auto all = [](const Dataset& ds) {
    std::vector<std::string> found;
    for (uint64_t rank = 0; rank < 3; ++rank) {
      for (std::string& row : Collect(ds.ShardSources(rank, 3))) found.push_back(std::move(row));
    }
    return found;
  };
  EXPECT_THAT(all(rows), UnorderedElementsAreArray(Collect(rows)));
  EXPECT_THAT(all(rows.Take(10)), UnorderedElementsAreArray(Collect(rows.Take(10))));
  EXPECT_THAT(all(rows.Skip(10)), UnorderedElementsAreArray(Collect(rows.Skip(10))));
  EXPECT_THAT(all(rows.Enumerate()), UnorderedElementsAreArray(Collect(rows.Enumerate())));
  EXPECT_EQ(rows.Batch(4).ShardSources(1, 3).Text(), "shards(3 files).parse(n, x).batch(4)");
  EXPECT_EQ(rows.Take(10).Batch(4).ShardSources(1, 3).Text(),
            "shards(3 files).parse(n, x).take(10).shard(1, 3).batch(4)");
  EXPECT_FAILS(rows.Shard(0, 2).ShardSources(0, 3).status(), kInvalidArgument,
               "the chain takes a rank's part already");
}

TEST_F(ShardsTest, LengthsAreKnownWhereTheyCanBe) {
  const auto table = Examples(100);
  const Dataset ds = Dataset::Shards(table);
  const auto elements = [](const Dataset& chain) {
    uint64_t count = 0;
    auto it = Start(chain);
    for (Batch batch; it->Next(&batch).ok() && !batch.empty();) ++count;
    return count;
  };
  const auto length = [](const Dataset& chain) { return *chain.CountElements(); };
  for (const Dataset& chain :
       {ds, ds.Shard(1, 3), ds.Repeat(3), ds.Take(7).Repeat(2), ds.Skip(98), ds.Skip(101),
        Parsed(ds).Batch(8), Parsed(ds).Batch(8, true).Shard(1, 2), ds.Repeat().Take(5),
        Dataset::Mix({ds, ds.Take(5)}, {1, 0}), Dataset::Zip({ds, Dataset::Range(0, 9)}),
        Dataset::Concatenate({ds, ds.Take(3)}), Dataset::Range(10, 0, -3)}) {
    EXPECT_TRUE(length(chain).known());
    EXPECT_EQ(length(chain).elements, elements(chain)) << chain.Text();
  }
  EXPECT_EQ(length(ds.Repeat()).kind, Length::Kind::kEndless);
  EXPECT_EQ(length(ds.Filter([](RowContext&) { return true; })).why, "filter drops elements");
}

TEST_F(ShardsTest, SkippedDamageKeepsItsPlace) {
  const auto table = Examples(100);
  std::string shard = testing::ReadBytes(folder_ / "e-00001-of-00003");
  shard[shard.size() / 2] ^= 1;
  folder_.Write("e-00001-of-00003", shard);
  EXPECT_FAILS(FirstError(Parsed(Dataset::Shards(table))), kDataLoss, "e-00001-of-00003: record");
  ReaderOptions options;
  options.damage.skip = true;
  const Dataset ds = Parsed(Dataset::Shards(table, options));
  auto it = Start(ds.Batch(10));
  size_t row = 0;
  size_t damaged = 0;
  for (Batch batch; it->Next(&batch).ok() && !batch.empty(); row += batch.rows) {
    EXPECT_EQ(batch.rows, 10);
    for (uint32_t d : batch.damaged) {
      ++damaged;
      EXPECT_EQ(row + d, 49);
      EXPECT_EQ(batch.Row<int64_t>(0, d)[0], 0);
      EXPECT_EQ(batch.Row<float>(1, d)[1], 0);
    }
  }
  EXPECT_EQ(row, 100);
  EXPECT_EQ(damaged, 1);
  EXPECT_EQ(it->stats().damaged, 1);
  // Functions do not see it, and filters drop it; what keeps or cuts rows keeps the mark.
  const Dataset seen = ds.Map({{"bytes", DType::kBytes, {}}}, [](RowContext& out) -> absl::Status {
    if (out.In<float>(1)[1] == 0) return absl::InternalError("a damaged row was seen");
    out.Out<std::string_view>(0)[0] = "x";
    return absl::OkStatus();
  });
  EXPECT_EQ(Collect(seen).size(), 100);
  EXPECT_EQ(Collect(seen.Filter([](RowContext&) { return true; })).size(), 99);
  Batch batch;
  ASSERT_OK(Start(seen.Shuffle(1, 100).Skip(1).Batch(7).Unbatch().Batch(99))->Next(&batch));
  ASSERT_EQ(batch.damaged.size(), 1);
  EXPECT_EQ(batch.Row<std::string_view>(2, batch.damaged[0])[0], "");
  // A row that comes later is the one that was parsed.
  const std::vector<std::string> ragged =
      Collect(Dataset::Shards(table, options).Parse({{.name = "x", .layout = Layout::kRagged}}));
  EXPECT_EQ(ragged[49], R"({"x":[]})");
  EXPECT_EQ(ragged[50], R"({"x":[50.0,0.5]})");
}

TEST_F(ShardsTest, SequencesWithStepsOfVaryingLength) {
  std::string shard;
  for (int i = 0; i < 6; ++i) {
    ExampleBuilder builder;
    builder.AddInt64("n", i);
    for (int step = 0; step < i % 3; ++step) {
      builder.AppendInt64Step("steps", std::vector<int64_t>(i - step, i));
    }
    std::string record;
    builder.SerializeSequenceExample(&record);
    AppendFrame(record, &shard);
  }
  folder_.Write("s-00000-of-00001", shard);
  const Dataset ds =
      Dataset::Shards(folder_ / "s@1")
          .Parse({{.name = "n", .dtype = DType::kInt64}}, {{.name = "steps",
                                                            .dtype = DType::kInt64,
                                                            .layout = Layout::kRagged,
                                                            .ragged_steps = true}});
  EXPECT_EQ(RowSpecText(ds.spec()), "n: int64, steps: int64 ragged, steps_lengths: int64 ragged");
  EXPECT_THAT(Collect(ds.Skip(2).Batch(4)),
              ElementsAre(R"({"n":[2,3,4,5],"steps":[[2,2,2],[],[4,4,4,4],[5,5,5,5,5,5,5,5,5]],)"
                          R"("steps_lengths":[[2,1],[],[4],[5,4]]})"));
}

TEST(DatasetTest, SparseColumnsHaveIndices) {
  const Dataset ds = Ragged(Dataset::Range(0, 8)).Select({"values"});
  EXPECT_THAT(
      Collect(ds.Skip(1).Batch(4).Sparse({"values"}).Skip(1)),
      ElementsAre(R"({"values":[[],[6],[7,7]],"values_indices":[[],[[1,0]],[[2,0],[2,1]]]})"));
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
  // What fails behind the end is not seen.
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
  // Numbers that are equal are one, and so are those that are none.
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

TEST(DatasetTest, BatchesOfOtherSizesHaveTheSameRows) {
  const Dataset rows = Ragged(Dataset::Range(0, 100));
  for (const bool drop : {false, true}) {
    for (const uint64_t size : {1, 6, 7, 14, 200}) {
      EXPECT_EQ(Collect(rows.Batch(7).Rebatch(size, drop)), Collect(rows.Batch(size, drop)));
    }
  }
}

TEST(DatasetTest, AScanKnowsTheRowsBefore) {
  const Dataset range = Dataset::Range(1, 6);
  const auto totals = {R"({"total":1})", R"({"total":3})", R"({"total":6})", R"({"total":10})",
                       R"({"total":15})"};
  EXPECT_EQ(Collect(Total(range)), std::vector<std::string>(totals.begin(), totals.end()));
  EXPECT_EQ(Total(range).CountElements()->elements, 5);
  // Each epoch begins anew.
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
               kInvalidArgument, "scan: the function gives one row for each, but it gave 0 for ");
}

// The values of a chain of one column of int64.
std::vector<int64_t> ValuesOf(const Dataset& ds) {
  std::vector<int64_t> values;
  auto it = Start(ds);
  for (Batch batch; it->Next(&batch).ok() && !batch.empty();) {
    for (int64_t value : batch.Values<int64_t>(0)) values.push_back(value);
  }
  return values;
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
  // It ends with the choice, and once all have ended though the choice has no end.
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
  EXPECT_FAILS(FirstError(Dataset::Choose({a, b}, Dataset::Range(1, 9))), kInvalidArgument,
               "element 1 of epoch 0 of the choice: choose: 2 is the number of no dataset; there "
               "are 2, from 0 on");
  // What is chosen for ever may have nothing.
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
  // Of what is left, the shares are new ones; the seed has no part in it.
  const auto rest = ValuesOf(
      Dataset::Mix({a.Take(2), b.Take(6), c.Take(6)}, {1, 1, 1}, 7, {Exhausted::kDrop}, true));
  EXPECT_THAT(rest, ElementsAre(0, 1000, 2000, 1, 1001, 2001, 1002, 2002, 1003, 2003, 1004, 2004,
                                1005, 2005));
  EXPECT_EQ(*Dataset::Mix({a, b}, {1, 2}, 7, {Exhausted::kDrop}, true).Fingerprint(),
            *Dataset::Mix({a, b}, {1, 2}, 8, {Exhausted::kDrop}, true).Fingerprint());
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
  // Errors behind a window name its first row.
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
  // By a function, and of bytes; what is left follows in the order of its first rows.
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
               "element 6 of epoch 0: bucket_by_length: the function gave a length of -1");
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
      // As many rows as the class allows that is wanted most.
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
               "element 3 of epoch 0: rejection_resample: the class is 2, and there are 2, from 0 "
               "on");
  const Dataset shares = rows.RejectionResample("kind", {1, 1, 5}, {1, 1, 1});
  EXPECT_NE(Collect(shares), Collect(rows.RejectionResample("kind", {1, 1, 5}, {1, 1, 1}, 1)));
  EXPECT_NE(Collect(shares.Repeat(2)).size(), 2 * Collect(shares).size());  // other draws
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
  // Several steps fail, on one row too: 1 % 150 is none of them, 307 of none.
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
  // Only the steps before it are meant.
  EXPECT_FAILS(FirstError(Failing(ignoring, 100, 5, "third")), kDataLoss, "value 5 fails");
  // All rows of a stretch, and rows that no function sees.
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
      if (rows == 400) state = *it->State();
      status = it->Next(&batch);
      if (!status.ok()) break;
      ++rows;
    }
    // 2 % fail, and ten may: the eleventh is row 549.
    EXPECT_EQ(rows, 549 - 10);
    const std::string message =
        "ignore_errors: 11 of the first 550 rows failed, and no more than 10 may be left out "
        "(max_ignored); the last one is element 549 of epoch 0: value 549 fails";
    EXPECT_FAILS(status, kDataLoss, message + "; the first one was element 49 of epoch 0");
    // A state has the counts.
    auto fresh = Start(ds);
    ASSERT_OK(fresh->Load(state));
    for (rows = 400; status = fresh->Next(&batch), status.ok();) ++rows;
    EXPECT_EQ(rows, 549 - 10);
    EXPECT_FAILS(status, kDataLoss, message);
    // With another ceiling the run goes on from there.
    auto more = Start(Failing(Dataset::Range(0, 10000), 50, 49).IgnoreErrors({.share = 0.03}));
    ASSERT_OK(more->Load(state));
    EXPECT_EQ(Collect(*more).size(), 9800 - 400);
  }
}

TEST(RunTest, IteratorsMayBeLeftAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    auto it = Start(Square(Dataset::Range(0, 1000000)).Batch(100).Prefetch(3));
    Collect(*it, i % 5);
  }
}

TEST(RunTest, CancelEndsAWait) {
  auto it = Start(Dataset::Range(0, 100)
                      .Map({},
                           [](RowContext&) {
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                             return absl::OkStatus();
                           })
                      .Batch(100));
  std::thread canceller([&] { it->Cancel(); });
  Batch batch;
  EXPECT_FAILS(it->Next(&batch), kCancelled, "the run was cancelled");
  canceller.join();
}

TEST(RunTest, AwaitWaitsNoLongerThanItIsTold) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  std::atomic<bool> open = false;
  const auto slow = [&](RowContext& row) {
    while (!open) std::this_thread::yield();
    return row.In<int64_t>(0)[0] < 15;
  };
  // The last batch, of which nothing is left, is not waited for as one that comes.
  const Dataset rows = Dataset::Range(0, 20);
  for (bool deterministic : {true, false}) {
    for (const Dataset& ds :
         {rows.Filter(slow), rows.Batch(5).Unbatch().Filter(slow).Take(100).Skip(0)}) {
      open = false;
      const auto it = Start(ds, deterministic);
      EXPECT_EQ(it->Await(milliseconds(0)), false);
      EXPECT_EQ(it->Await(milliseconds(1)), false);
      open = true;
      Batch batch;
      for (int64_t n = 0; n < 15; ++n) {
        EXPECT_EQ(it->Await(hours(1)), true);
        ASSERT_OK(it->Next(&batch));
        if (deterministic) {
          EXPECT_EQ(batch.Row<int64_t>(0, 0)[0], n);
        }
      }
      EXPECT_EQ(it->Await(hours(1)), true);
      ASSERT_OK(it->Next(&batch));
      EXPECT_TRUE(batch.empty());
    }
  }
  // Others cannot tell.
  EXPECT_EQ(Start(rows)->Await(hours(1)), std::nullopt);
  EXPECT_EQ(Start(Square(rows).Skip(3))->Await(hours(1)), std::nullopt);
}

TEST(RunTest, CancelAndErrorsEndAnAwait) {
  std::atomic<bool> open = false;
  const Dataset ds = Dataset::Range(0, 5).Map({}, [&](RowContext&) {
    while (!open) std::this_thread::yield();
    return absl::DataLossError("bad");
  });
  auto it = Start(ds);
  std::thread canceller([&] { it->Cancel(); });
  EXPECT_EQ(it->Await(std::chrono::hours(1)), true);
  Batch batch;
  EXPECT_FAILS(it->Next(&batch), kCancelled, "the run was cancelled");
  canceller.join();
  open = true;
  it = Start(ds);
  EXPECT_EQ(it->Await(std::chrono::hours(1)), true);
  EXPECT_FAILS(it->Next(&batch), kDataLoss, "bad");
  EXPECT_EQ(it->Await(std::chrono::hours(1)), true);
}

TEST(RunTest, StatisticsAddUp) {
  auto it = Start(Square(Dataset::Range(0, 1000)).Batch(10));
  Collect(*it);
  const IteratorStats stats = it->stats();
  EXPECT_EQ(stats.elements, 100);
  EXPECT_EQ(stats.rows, 1000);
  ASSERT_EQ(stats.stages.size(), 1);
  EXPECT_EQ(stats.stages[0].name, "map+batch");
  EXPECT_EQ(stats.stages[0].batches, 100);
  EXPECT_EQ(stats.stages[0].rows, 1000);
  EXPECT_EQ(stats.stages[0].threads, kThreads);
  EXPECT_THAT(stats.verdict, HasSubstr(stats.limit));
}

TEST(RunTest, TuningCanBeFrozen) {
  const Dataset ds = Square(Square(Dataset::Range(0, 1000)).Batch(10).Unbatch()).Batch(4);
  const auto it = *ds.Start({.threads = 4, .tuning = {{"map+batch", 1, 3}, {"map+batch 2", 2, 7}}});
  Collect(*it);
  const IteratorStats stats = it->stats();
  ASSERT_EQ(stats.tuning.size(), 2);
  EXPECT_EQ(stats.tuning[0].stage, "map+batch");
  EXPECT_EQ(stats.tuning[0].workers, 1);
  EXPECT_EQ(stats.tuning[0].read_ahead, 3);
  EXPECT_EQ(stats.tuning[1].stage, "map+batch 2");
  EXPECT_EQ(stats.tuning[1].workers, 2);
  EXPECT_EQ(stats.tuning[1].read_ahead, 7);
  EXPECT_THAT(stats.decisions, ElementsAre());
}

TEST(RunTest, TheShareOfTheProcessorsIsKept) {
  // Over all stages together.
  auto now = std::make_shared<std::atomic<int>>(0);
  auto most = std::make_shared<std::atomic<int>>(0);
  const auto counted = [=](const Dataset& ds) {
    return ds.Map({}, [=](RowContext&) {
      const int at_once = ++*now;
      for (int seen = *most; at_once > seen && !most->compare_exchange_weak(seen, at_once);) {
      }
      std::this_thread::yield();
      --*now;
      return absl::OkStatus();
    });
  };
  const Dataset ds = counted(counted(Dataset::Range(0, 5000)).Batch(10).Unbatch()).Batch(7);
  const auto it = *ds.Start({.threads = 4, .cpu_share = 0.5});
  Collect(*it);
  EXPECT_EQ(it->stats().stages[0].threads, 2);
  EXPECT_LE(*most, 2);
  EXPECT_FAILS(ds.Start({.cpu_share = 0}).status(), kInvalidArgument, "cpu_share is 0");
  EXPECT_FAILS(ds.Start({.cpu_share = 1.5}).status(), kInvalidArgument, "must be above 0");
}

TEST(RunTest, AForkedChildGoesOnByItself) {
  SKIP_WHERE_THREADS_HINDER_FORK();
  const Dataset ds = Ragged(Odd(Square(Dataset::Range(0, 10000))))
                         .Shuffle(1, 50)
                         .BucketByLength("values", {1, 3}, {5, 9, 30})
                         .Prefetch(3);
  const std::vector<std::string> all = Collect(ds);
  auto it = Start(ds);
  auto unordered = Start(ds, /*deterministic=*/false);
  auto unused = Start(ds);
  for (size_t at : {0, 20}) {
    Collect(*it, at);
    Collect(*unordered, at);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool same = Collect(*it, 60) == std::vector(all.begin() + at, all.begin() + at + 60);
      const std::string state = *it->State();
      it = nullptr;
      unused = nullptr;
      Batch batch;
      const bool refused = absl::IsFailedPrecondition(unordered->Next(&batch));
      unordered = nullptr;
      auto fresh = Start(ds);
      const bool loaded = fresh->Load(state).ok() && Collect(*fresh, 1)[0] == all[at + 60];
      ::_exit((same ? 0 : 1) + (refused ? 0 : 2) + (loaded ? 0 : 4));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_EQ(Collect(*it), std::vector(all.begin() + 20, all.end()));
}

TEST(RunTest, MemoryStaysWithinTheBudget) {
  // Batches of 800 kB before a consumer that takes none but the first.
  const Dataset ds = Dataset::Range(0, 100000)
                         .Map({{"large", DType::kInt64, {1000}}},
                              [](RowContext& row) {
                                for (int64_t& v : row.Out<int64_t>(0)) v = 1;
                                return absl::OkStatus();
                              })
                         .Batch(100);
  auto it = *ds.Start({.threads = kThreads, .budget_bytes = 4 << 20});
  Collect(*it, 200);
  EXPECT_LE(it->stats().stages[0].peak_bytes, (4 << 20) + 900'000);
}

}  // namespace
}  // namespace shardfeed
