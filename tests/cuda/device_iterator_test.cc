#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "cuda/device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardfeed/cuda.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/cuda/device_iterator_fixture.h"

namespace shardfeed::testing {
namespace {

using ::testing::HasSubstr;

class DeviceIteratorTest : public DeviceIteratorFixture {};

TEST_F(DeviceIteratorTest, BatchesArriveWholeAndInOrder) {
  for (int depth : {1, 2, 3}) {
    auto it = Start(Numbers(200).Batch(7), {.depth = depth});
    TestStream stream(device_);
    std::vector<NumbersRead> reads;
    DeviceBatch batch;
    // The host never waits for the stream, which falls behind.
    while (true) {
      ASSERT_OK(it->Next(&batch, stream.get()));
      if (batch.empty()) break;
      reads.push_back(ReadNumbers(batch, stream));
    }
    ASSERT_OK(it->Next(&batch, stream.get()));
    EXPECT_TRUE(batch.empty());
    stream.Wait();
    EXPECT_EQ(reads.size(), 29);
    ExpectNumbers(reads);
    const DeviceStats stats = it->stats();
    EXPECT_EQ(stats.batches, 29);
    EXPECT_EQ(stats.rows, 200);
    EXPECT_LE(stats.buffers, depth + 1);
    EXPECT_GE(stats.hidden, 0);
    EXPECT_LE(stats.hidden, 1);
    EXPECT_THAT(stats.verdict, HasSubstr("limits"));
  }
}

TEST_F(DeviceIteratorTest, WhatASpecSaysIsDelivered) {
  auto it = Start(Numbers(10).Batch(4));
  EXPECT_EQ(RowSpecText(it->spec()), "value: int64, x: int32 [1000], ragged: int64 ragged");
  DeviceBatch batch;
  ASSERT_OK(it->Next(&batch));
  ASSERT_EQ(batch.tensors.size(), 3);
  EXPECT_EQ(batch.tensors[1].shape, (std::vector<int64_t>{4, 1000}));
  EXPECT_EQ(batch.tensors[2].shape, (std::vector<int64_t>{0 + 1 + 2 + 3}));
  for (const DeviceTensor& tensor : batch.tensors) EXPECT_EQ(tensor.data % 256, 0);
  EXPECT_EQ(batch.tensors[0].splits, 0);
  EXPECT_EQ(batch.device()->ordinal(), 0);
  RowOrigin origin;
  EXPECT_TRUE(batch.host.OriginOf(3, &origin));
  EXPECT_EQ(origin.position, 3);
}

TEST_F(DeviceIteratorTest, BytesStayOnTheHost) {
  auto it = Start(Numbers(10)
                      .Map({{"name", DType::kBytes, {}}},
                           [](RowContext& row) {
                             row.Out<std::string_view>(0)[0] =
                                 row.In<int64_t>(0)[0] % 2 == 0 ? "even" : "odd";
                             return absl::OkStatus();
                           })
                      .Batch(4));
  EXPECT_EQ(RowSpecText(it->spec()), "value: int64, x: int32 [1000], ragged: int64 ragged");
  DeviceBatch batch;
  ASSERT_OK(it->Next(&batch));
  ASSERT_EQ(batch.host.columns.size(), 1);
  EXPECT_EQ(batch.host.Row<std::string_view>(0, 3)[0], "odd");
}

TEST_F(DeviceIteratorTest, RowSplitsBeginAtZeroWhereverTheRowsStood) {
  auto it = Start(Numbers(60).Batch(30).Unbatch().Batch(4));
  TestStream stream(device_);
  std::vector<NumbersRead> reads;
  for (DeviceBatch batch; it->Next(&batch, stream.get()).ok() && !batch.empty();) {
    reads.push_back(ReadNumbers(batch, stream));
  }
  stream.Wait();
  EXPECT_EQ(reads.size(), 15);
  ExpectNumbers(reads);
}

TEST_F(DeviceIteratorTest, MemoryThatIsNotPinnedIsStaged) {
  auto it = Start(Numbers(64).Batch(8), {.pinned_bytes = 1});
  TestStream stream(device_);
  std::vector<NumbersRead> reads;
  for (DeviceBatch batch; it->Next(&batch, stream.get()).ok() && !batch.empty();) {
    reads.push_back(ReadNumbers(batch, stream));
  }
  stream.Wait();
  ExpectNumbers(reads);
  const DeviceStats stats = it->stats();
  EXPECT_EQ(stats.staged_bytes, stats.bytes);
  EXPECT_GT(stats.pinned.refused, 0);
}

TEST_F(DeviceIteratorTest, LargeBatchesAreStagedByThreads) {
  for (int threads : {1, 5}) {
    auto it = Start(Numbers(3000).Batch(1500), {.pinned_bytes = 1}, {.threads = threads});
    TestStream stream(device_);
    std::vector<NumbersRead> reads;
    for (DeviceBatch batch; it->Next(&batch, stream.get()).ok() && !batch.empty();) {
      reads.push_back(ReadNumbers(batch, stream));
    }
    stream.Wait();
    ASSERT_EQ(reads.size(), 2);
    ExpectNumbers(reads);
    EXPECT_EQ(it->stats().staged_bytes, it->stats().bytes);
  }
}

TEST_F(DeviceIteratorTest, BatchesOfThePipelineArePinnedWithinTheBudget) {
  auto it = Start(Numbers(64).Select({"x", "ragged"}).Batch(8), {}, {.budget_bytes = 16 << 20});
  DeviceBatch batch;
  do {
    ASSERT_OK(it->Next(&batch));
  } while (!batch.empty());
  const DeviceStats stats = it->stats();
  // Only row splits that do not begin at 0 are staged.
  EXPECT_LE(stats.staged_bytes, 8 * 9 * sizeof(int64_t));
  EXPECT_GT(stats.bytes, 64 * 4000);
  EXPECT_LE(stats.pinned.bytes, 16 << 20);
}

TEST_F(DeviceIteratorTest, TheDefaultBudgetHasPinnedMemory) {
  auto it = Start(Numbers(64).Select({"x"}).Batch(8));
  DeviceBatch batch;
  do {
    ASSERT_OK(it->Next(&batch));
  } while (!batch.empty());
  EXPECT_EQ(it->stats().staged_bytes, 0);
  EXPECT_GT(it->stats().pinned.bytes, 0);
}

TEST_F(DeviceIteratorTest, BatchesMayBeDroppedInFlight) {
  TestStream stream(device_);
  for (int taken = 0; taken < 6; ++taken) {
    auto it = Start(Numbers(200).Batch(7));
    for (int i = 0; i < taken; ++i) {
      DeviceBatch batch;
      ASSERT_OK(it->Next(&batch, stream.get()));
    }
  }
}

TEST_F(DeviceIteratorTest, ABufferThatIsInUseOnTheDeviceIsNotAwaitedWhileThereMayBeMore) {
  if (!kStandIn) GTEST_SKIP() << "needs slow copies";
  Function<void (*)(double, double)>("StandInSetSpeed")(1e5, 1e-4);
  TestStream stream(device_);
  auto it = Start(Numbers(64).Select({"x"}).Batch(8));
  for (int i = 0; i < 3; ++i) {
    DeviceBatch batch;
    ASSERT_OK(it->Next(&batch, stream.get()));
  }
  EXPECT_EQ(it->stats().buffers, 2);
}

TEST_F(DeviceIteratorTest, BatchesThatAreKeptGetMoreBuffers) {
  auto it = Start(Numbers(210).Batch(7));
  TestStream stream(device_);
  std::vector<DeviceBatch> kept(6);
  for (DeviceBatch& batch : kept) ASSERT_OK(it->Next(&batch, stream.get()));
  EXPECT_GE(it->stats().buffers, 6);
  std::set<CuDevicePtr> places;
  std::vector<NumbersRead> reads;
  for (const DeviceBatch& batch : kept) {
    places.insert(batch.tensors[0].data);
    reads.push_back(ReadNumbers(batch, stream));
  }
  EXPECT_EQ(places.size(), 6);
  kept.clear();
  for (DeviceBatch batch; it->Next(&batch, stream.get()).ok() && !batch.empty();) {
    reads.push_back(ReadNumbers(batch, stream));
  }
  stream.Wait();
  EXPECT_EQ(reads.size(), 30);
  ExpectNumbers(reads);
  EXPECT_LE(it->stats().buffers, 4);
}

TEST_F(DeviceIteratorTest, CopiesOfABatchShareItAndOutliveTheIterator) {
  TestStream stream(device_);
  DeviceBatch batch;
  std::shared_ptr<const void> owner;
  {
    auto it = Start(Numbers(200).Batch(7));
    ASSERT_OK(it->Next(&batch, stream.get()));
    owner = batch.owner();
  }
  const CuDevicePtr place = batch.tensors[1].data;
  EXPECT_EQ(batch.stream(), stream.get());
  EXPECT_OK(batch.Use(stream.get()));
  batch = DeviceBatch();
  const auto x = stream.Read<int32_t>(place, 7000);
  owner.reset();  // while the read is in progress
  stream.Wait();
  EXPECT_EQ((*x)[6999], 6 + 999);
  EXPECT_OK(DeviceBatch().Use(stream.get()));
}

TEST_F(DeviceIteratorTest, SeveralDevicesWorkInOneProcess) {
  absl::StatusOr<std::shared_ptr<const CudaDevice>> other = CudaDevice::Open(1);
  if (!other.ok()) GTEST_SKIP() << std::string(other.status().message());
  std::vector<std::thread> threads;
  for (int ordinal : {0, 1}) {
    threads.emplace_back([&, ordinal] {
      auto it = Start(Numbers(70).Batch(7), {.device = ordinal});
      TestStream stream(ordinal == 0 ? device_ : *other);
      std::vector<NumbersRead> reads;
      for (DeviceBatch batch; it->Next(&batch, stream.get()).ok() && !batch.empty();) {
        reads.push_back(ReadNumbers(batch, stream));
      }
      stream.Wait();
      ExpectNumbers(reads);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A stream of one device is refused for the batches of another.
  auto it = Start(Numbers(70).Batch(7));
  TestStream theirs(*other);
  TestStream ours(device_);
  DeviceBatch batch;
  ASSERT_OK(it->Next(&batch, ours.get()));
  EXPECT_FAILS(batch.Use(theirs.get()), kInvalidArgument,
               "the stream does not belong to the primary context of device 0");
  EXPECT_FAILS(it->Next(&batch, theirs.get()), kInvalidArgument, "the stream does not belong to");
}

TEST_F(DeviceIteratorTest, TheStateCountsWhatWasDelivered) {
  const Dataset ds = Numbers(70).Batch(7);
  auto it = Start(ds, {.depth = 4});
  TestStream stream(device_);
  const auto rest = [&](DeviceIterator& from, int64_t first) {
    std::vector<NumbersRead> reads;
    for (DeviceBatch batch; from.Next(&batch, stream.get()).ok() && !batch.empty();) {
      reads.push_back(ReadNumbers(batch, stream));
    }
    stream.Wait();
    EXPECT_EQ(reads.size(), (70 - first) / 7);
    ExpectNumbers(reads, first);
  };
  const auto start = it->StateDict();
  ASSERT_OK(start);
  DeviceBatch batch;
  for (int i = 0; i < 3; ++i) ASSERT_OK(it->Next(&batch, stream.get()));
  const auto third = it->StateDict();
  ASSERT_OK(third);
  ASSERT_OK(it->Next(&batch, stream.get()));
  // In the same run, in a new run, after the end, and in the pipeline itself.
  ASSERT_OK(it->LoadStateDict(*third));
  rest(*it, 21);
  auto other = Start(ds);
  ASSERT_OK(other->LoadStateDict(*third));
  EXPECT_EQ(*other->StateDict(), *third);
  rest(*other, 21);
  ASSERT_OK(other->LoadStateDict(*start));
  rest(*other, 0);
  auto host = ds.Start({.threads = 2});
  ASSERT_OK(host);
  ASSERT_OK((*host)->LoadStateDict(*third));
  Batch first;
  ASSERT_OK((*host)->Next(&first));
  EXPECT_EQ(first.Values<int64_t>(first.Find("value"))[0], 21);
  EXPECT_FAILS(it->LoadStateDict("nonsense"), kInvalidArgument,
               "not a state of a shardfeed pipeline");
  EXPECT_FAILS(it->Next(&batch), kInvalidArgument, "not a state of a shardfeed pipeline");
  ASSERT_OK(it->LoadStateDict(*third));
  rest(*it, 21);
}

TEST_F(DeviceIteratorTest, ErrorsOfThePipelineComeInTheirPlace) {
  auto it =
      Start(Numbers(70)
                .Map({{"y", DType::kInt64, {}}},
                     [](RowContext& row) {
                       const int64_t value = row.In<int64_t>(0)[0];
                       row.Out<int64_t>(0)[0] = value;
                       return value == 30 ? absl::DataLossError("it is 30") : absl::OkStatus();
                     })
                .Batch(7));
  DeviceBatch batch;
  for (int i = 0; i < 4; ++i) ASSERT_OK(it->Next(&batch));
  EXPECT_FAILS(it->Next(&batch), kDataLoss, "it is 30");
  EXPECT_TRUE(batch.empty());
  EXPECT_FAILS(it->Next(&batch), kDataLoss, "it is 30");
}

TEST_F(DeviceIteratorTest, CancelEndsWaiting) {
  std::promise<void> called;
  std::atomic<bool> first = true;
  auto it = Start(Numbers(7'000'000)
                      .Filter([&](RowContext& row) {
                        if (row.In<int64_t>(0)[0] > 100 && first.exchange(false)) {
                          called.set_value();
                        }
                        return row.In<int64_t>(0)[0] < 7;
                      })
                      .Batch(7));
  DeviceBatch batch;
  ASSERT_OK(it->Next(&batch));
  std::thread other([&] {
    called.get_future().wait();
    it->Cancel();
  });
  EXPECT_FAILS(it->Next(&batch), kCancelled, "cancelled");
  other.join();
}

TEST_F(DeviceIteratorTest, AwaitTellsWhetherNextNeedsToWait) {
  const auto it = Start(Dataset::Range(0, 2).Batch(1));
  ASSERT_NE(it, nullptr);
  DeviceBatch batch;
  for (size_t rows : {1, 1, 0}) {
    while (!it->Await(std::chrono::milliseconds(1))) {
    }
    EXPECT_TRUE(it->Await(std::chrono::milliseconds(0)));
    ASSERT_OK(it->Next(&batch));
    EXPECT_EQ(batch.rows, rows);
  }
  EXPECT_TRUE(it->Await(std::chrono::milliseconds(0)));  // the end stays
}

TEST_F(DeviceIteratorTest, AwaitGivesUp) {
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  const Dataset ds = Dataset::Range(0, 1)
                         .Map({{"value", DType::kInt64}},
                              [gone](RowContext& row) {
                                gone.wait();
                                row.Out<int64_t>(0)[0] = 7;
                                return absl::OkStatus();
                              })
                         .Batch(1);
  const auto it = Start(ds);
  ASSERT_NE(it, nullptr);
  EXPECT_FALSE(it->Await(std::chrono::milliseconds(1)));
  go.set_value();
  DeviceBatch batch;
  ASSERT_OK(it->Next(&batch));
  EXPECT_EQ(batch.rows, 1);
}

TEST_F(DeviceIteratorTest, CancelBeforeTheFirstBatch) {
  auto it = Start(Numbers(70).Batch(7));
  it->Cancel();
  DeviceBatch batch;
  EXPECT_FAILS(it->Next(&batch), kCancelled, "cancelled");
  EXPECT_FAILS(it->Next(&batch), kCancelled, "cancelled");
}

TEST_F(DeviceIteratorTest, RowsWithoutTensorsAreDelivered) {
  auto it = Start(Numbers(10)
                      .Map({{"name", DType::kBytes, {}}},
                           [](RowContext& row) {
                             row.Out<std::string_view>(0)[0] = "it";
                             return absl::OkStatus();
                           },
                           {"value", "x", "ragged"})
                      .Batch(4));
  EXPECT_TRUE(it->spec().empty());
  TestStream stream(device_);
  size_t rows = 0;
  for (DeviceBatch batch; it->Next(&batch, stream.get()).ok() && !batch.empty();) {
    rows += batch.rows;
    EXPECT_EQ(batch.host.Row<std::string_view>(0, batch.rows - 1)[0], "it");
  }
  EXPECT_EQ(rows, 10);
}

TEST_F(DeviceIteratorTest, DamagedRowsAreTold) {
  Batch rows;
  rows.rows = 8;
  rows.spec = std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}});
  rows.damaged = {5};
  AllocateFixedColumns(&rows);
  std::memset(rows.columns[0].data, 0, 8 * sizeof(int64_t));
  auto it = Start(Dataset::FromArrays(rows).Batch(4));
  DeviceBatch batch;
  ASSERT_OK(it->Next(&batch));
  EXPECT_TRUE(batch.host.damaged.empty());
  ASSERT_OK(it->Next(&batch));
  EXPECT_EQ(batch.host.damaged, (std::vector<uint32_t>{1}));
}

TEST_F(DeviceIteratorTest, LoadStateDictForgetsErrorsOfTheDevice) {
  if (!kStandIn) GTEST_SKIP() << "only the stand-in driver's memory ends early";
  const Dataset ds = Numbers(70).Batch(7);
  auto it = Start(ds);
  const auto start = it->StateDict();
  ASSERT_OK(start);
  DeviceBatch batch;
  setenv("STAND_IN_MEMORY_LIMIT", "1000", 1);
  EXPECT_FAILS(it->Next(&batch), kResourceExhausted, "cuMemAlloc");
  EXPECT_FAILS(it->Next(&batch), kResourceExhausted, "cuMemAlloc");
  unsetenv("STAND_IN_MEMORY_LIMIT");
  const auto expect_all = [&] {
    ASSERT_OK(it->LoadStateDict(*start));
    TestStream stream(device_);
    std::vector<NumbersRead> reads;
    for (DeviceBatch next; it->Next(&next, stream.get()).ok() && !next.empty();) {
      reads.push_back(ReadNumbers(next, stream));
    }
    stream.Wait();
    EXPECT_EQ(reads.size(), 10);
    ExpectNumbers(reads);
  };
  expect_all();
  {
    TestStream stream(device_);
    ASSERT_OK(it->LoadStateDict(*start));
    ASSERT_OK(it->Next(&batch, stream.get()));
  }
  batch = DeviceBatch();
  EXPECT_FAILS(it->Next(&batch), kInternal, "a stream that uses a batch must live");
  EXPECT_THAT(TakeMisuses(), HasSubstr("the stream is gone"));
  expect_all();
  EXPECT_LE(it->stats().buffers, 3);
}

TEST_F(DeviceIteratorTest, BytesOnTheHostAreOfTheirOwnMemory) {
  auto it = Start(Dataset::Range(0, 40)
                      .Map({{"words", DType::kBytes, {}, true}},
                           [](RowContext& row) {
                             const int64_t value = row.In<int64_t>(0)[0];
                             for (auto& word : row.Extend<std::string_view>(0, value % 3)) {
                               word = row.Keep(std::to_string(value));
                             }
                             return absl::OkStatus();
                           })
                      .Batch(20)
                      .Unbatch()
                      .Batch(8));
  std::vector<Batch> hosts;
  for (DeviceBatch batch; it->Next(&batch).ok() && !batch.empty();) hosts.push_back(batch.host);
  it.reset();
  int64_t value = 0;
  for (const Batch& host : hosts) {
    EXPECT_EQ(host.columns[0].splits[0], 0);
    for (size_t r = 0; r < host.rows; ++r, ++value) {
      const auto words = host.Row<std::string_view>(0, r);
      ASSERT_EQ(words.size(), value % 3);
      for (std::string_view word : words) EXPECT_EQ(word, std::to_string(value));
    }
  }
  EXPECT_EQ(value, 40);
}

// Each run continues until the verdict appears, however fast this machine is.
TEST_F(DeviceIteratorTest, TheStatisticsTellWhoWaits) {
  if (!kStandIn) GTEST_SKIP() << "needs slow copies";
  const auto set_speed = Function<void (*)(double, double)>("StandInSetSpeed");
  const auto pause = [](int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  const auto run_until = [&](const Dataset& ds, auto&& consume, auto&& seen) {
    auto it = Start(ds.Repeat().Batch(7));
    TestStream stream(device_);
    DeviceBatch batch;
    do {
      ASSERT_OK(it->Next(&batch, stream.get()));
      consume(stream);
    } while (!seen(it->stats()));
    batch = DeviceBatch();
  };
  set_speed(1e6, 0);  // 28 kB per batch
  run_until(
      Numbers(70), [](TestStream& stream) { stream.Wait(); },
      [](const DeviceStats& s) {
        return s.exposed_seconds > 0 && s.hidden < 1 &&
               s.verdict.find("the bus limits: the device waits") == 0;
      });
  set_speed(1e12, 0);
  run_until(
      Numbers(70).Map({{"y", DType::kInt64, {}}},
                      [&](RowContext& row) {
                        pause(2);
                        row.Out<int64_t>(0)[0] = 0;
                        return absl::OkStatus();
                      }),
      [](TestStream&) {},
      [](const DeviceStats& s) {
        return s.pipeline_wait_seconds > 0 && s.wait_seconds >= s.pipeline_wait_seconds &&
               s.verdict.find("the pipeline limits: the consumer waits") == 0;
      });
  int longer = 0;  // eventually longer than the pipeline takes
  run_until(
      Numbers(70), [&](TestStream&) { pause(++longer); },
      [](const DeviceStats& s) {
        return s.ring_full_seconds > 0 && s.verdict.find("the consumer limits") == 0;
      });
}

TEST_F(DeviceIteratorTest, WhatCannotBeIsAnError) {
  EXPECT_FAILS(StartError(Numbers(10)), kInvalidArgument, "put a batch step at its end");
  EXPECT_FAILS(StartError(Numbers(10).Take(1).Batch(0)), kInvalidArgument, "batch");
  EXPECT_FAILS(StartError(Numbers(10).Batch(2), {.device = 99}), kInvalidArgument,
               "there is no CUDA device 99");
  EXPECT_FAILS(StartError(Numbers(10).Batch(2), {.depth = 0}), kInvalidArgument,
               "depth must be at least 1 buffer, or 2 to overlap copies with work, got 0");
  EXPECT_FAILS(StartError(Numbers(10).Batch(2), {.normalize = {{"image", {}}}}), kInvalidArgument,
               "normalize: there is no column 'image'; there are: value: int64");
  EXPECT_FAILS(
      StartError(Numbers(10).Batch(2), {.normalize = {{"x", {}}}}), kInvalidArgument,
      "normalize 'x': expected uint8 images [height, width, channels] of 1 to 4 channels, but "
      "the column is x: int32 [1000]");
}

TEST_F(DeviceIteratorTest, ADeviceWithoutMemoryIsAnError) {
  if (!kStandIn) GTEST_SKIP() << "only the stand-in driver's memory ends early";
  setenv("STAND_IN_MEMORY_LIMIT", "1000", 1);
  auto it = Start(Numbers(70).Batch(7));
  DeviceBatch batch;
  EXPECT_FAILS(it->Next(&batch), kResourceExhausted,
               "a buffer of 2097152 bytes on device 0 (stand-in 0): cuMemAlloc");
  unsetenv("STAND_IN_MEMORY_LIMIT");
}

}  // namespace
}  // namespace shardfeed::testing
