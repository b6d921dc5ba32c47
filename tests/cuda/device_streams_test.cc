// Tests the consumers' streams: what waits for what, and captures of CUDA graphs meanwhile.

#include <thread>
#include <utility>
#include <vector>

#include "cuda/device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardfeed/cuda.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/cuda/device_iterator_fixture.h"

namespace shardfeed::testing {
namespace {

using ::testing::HasSubstr;

class DeviceStreamsTest : public DeviceIteratorFixture {};

TEST_F(DeviceStreamsTest, FurtherStreamsAreWaitedForToo) {
  auto it = Start(Numbers(140).Batch(7));
  TestStream first(device_);
  TestStream second(device_);
  std::vector<NumbersRead> reads;
  std::vector<NumbersRead> others;
  for (DeviceBatch batch; it->Next(&batch, first.get()).ok() && !batch.empty();) {
    ASSERT_OK(batch.Use(second.get()));
    reads.push_back(ReadNumbers(batch, first));
    others.push_back(ReadNumbers(batch, second));
  }
  first.Wait();
  second.Wait();
  ExpectNumbers(reads);
  ExpectNumbers(others);
}

TEST_F(DeviceStreamsTest, DefaultStreamsMayBeUsedFromAnyThread) {
  for (CuStream stream : {CuStream(), CuStreamLegacy(), CuStreamPerThread()}) {
    auto it = Start(Numbers(70).Batch(7));
    std::vector<int32_t> x(7000);
    int64_t batches = 0;
    for (DeviceBatch batch; it->Next(&batch, stream).ok() && !batch.empty(); ++batches) {
      const CudaContextScope scope(*device_);
      const CudaDriver& driver = device_->driver();
      ASSERT_EQ(driver.MemcpyDtoHAsync(x.data(), batch.tensors[1].data, 28000, stream), kCuSuccess);
      // Another thread releases the batch while the copy runs.
      std::thread([last = std::move(batch)]() mutable { last = DeviceBatch(); }).join();
      ASSERT_EQ(driver.StreamSynchronize(stream), kCuSuccess);
      EXPECT_EQ(x[6999], 7 * batches + 6 + 999);
    }
    EXPECT_EQ(batches, 10);
  }
}

TEST_F(DeviceStreamsTest, WorkOnAStreamThatWaitsForANamedOneIsSeenToRace) {
  if (!kStandIn) GTEST_SKIP() << "a real driver does not tell";
  Function<void (*)(double, double)>("StandInSetSpeed")(1e7, 1e-4);
  for (const bool named : {false, true}) {
#ifdef __SANITIZE_THREAD__
    if (!named) continue;  // ThreadSanitizer sees the race too, and ends the test.
#endif
    TestStream first(device_);
    TestStream second(device_);
    CuEvent event = nullptr;
    const CudaContextScope scope(*device_);
    const CudaDriver& driver = device_->driver();
    ASSERT_EQ(driver.EventCreate(&event, 0), kCuSuccess);
    auto it = Start(Numbers(70).Batch(7));
    std::vector<NumbersRead> reads;
    for (DeviceBatch batch; it->Next(&batch, first.get()).ok() && !batch.empty();) {
      driver.EventRecord(event, first.get());
      driver.StreamWaitEvent(second.get(), event, 0);
      if (named) ASSERT_OK(batch.Use(second.get()));
      reads.push_back(ReadNumbers(batch, second));
    }
    second.Wait();
    driver.EventDestroy(event);
    if (named) {
      EXPECT_EQ(TakeMisuses(), "");
      ExpectNumbers(reads);
    } else {
      EXPECT_THAT(TakeMisuses(), HasSubstr("overwrites what stream"));
    }
  }
}

// Captures as torch.cuda.graph does by default, while this thread and the iterator's continue.
TEST_F(DeviceStreamsTest, AGraphMayBeCapturedBeside) {
  if (!kStandIn) GTEST_SKIP() << "captures are begun by the stand-in's own functions";
  const auto begin = Function<CuResult (*)(CuStream, int)>("cuStreamBeginCapture_v2");
  const auto end = Function<CuResult (*)(CuStream, void**)>("cuStreamEndCapture");
  void* graph;
  TestStream captured(device_);
  TestStream stream(device_);
  const CudaContextScope scope(*device_);
  int mode = kCuCaptureModeGlobal;  // the mode that a user has, unlike the scope's
  device_->driver().ThreadExchangeStreamCaptureMode(&mode);
  auto it = Start(Numbers(140).Batch(7), {.pinned_bytes = 1 << 16});
  std::vector<NumbersRead> reads;
  for (DeviceBatch batch;;) {
    ASSERT_EQ(begin(captured.get(), kCuCaptureModeGlobal), kCuSuccess);
    ASSERT_OK(it->Next(&batch, stream.get()));
    if (batch.empty()) break;
    EXPECT_FAILS(batch.Use(captured.get()), kFailedPrecondition, "being captured in a CUDA graph");
    ASSERT_EQ(end(captured.get(), &graph), kCuSuccess);
    reads.push_back(ReadNumbers(batch, stream));
  }
  ASSERT_EQ(end(captured.get(), &graph), kCuSuccess);
  device_->driver().ThreadExchangeStreamCaptureMode(&mode);
  stream.Wait();
  EXPECT_EQ(reads.size(), 20);
  ExpectNumbers(reads);
}

TEST_F(DeviceStreamsTest, ABatchThatIsReleasedDuringACaptureIsNotOverwritten) {
  if (!kStandIn) GTEST_SKIP() << "captures are begun by the stand-in's own functions";
  Function<void (*)(double, double)>("StandInSetSpeed")(1e7, 1e-4);
  const auto begin = Function<CuResult (*)(CuStream, int)>("cuStreamBeginCapture_v2");
  const auto end = Function<CuResult (*)(CuStream, void**)>("cuStreamEndCapture");
  void* graph;
  TestStream captured(device_);
  TestStream stream(device_);
  auto it = Start(Numbers(140).Batch(7));
  std::vector<NumbersRead> reads;
  DeviceBatch batch;
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK(it->Next(&batch, captured.get()));
    reads.push_back(ReadNumbers(batch, captured));
    const CudaContextScope scope(*device_);
    ASSERT_EQ(begin(captured.get(), kCuCaptureModeGlobal), kCuSuccess);
    // An invalid stream is reported before a batch is taken, so that none is lost.
    EXPECT_FAILS(it->Next(&batch, captured.get()), kFailedPrecondition, "being captured");
    EXPECT_TRUE(batch.empty());
    ASSERT_OK(it->Next(&batch, stream.get()));
    reads.push_back(ReadNumbers(batch, stream));
    ASSERT_EQ(end(captured.get(), &graph), kCuSuccess);
  }
  while (it->Next(&batch, stream.get()).ok() && !batch.empty()) {
    reads.push_back(ReadNumbers(batch, stream));
  }
  captured.Wait();
  stream.Wait();
  EXPECT_EQ(reads.size(), 20);
  ExpectNumbers(reads);
}

TEST_F(DeviceStreamsTest, AStreamThatEndsBeforeItsBatchIsAnError) {
  if (!kStandIn) GTEST_SKIP() << "a real driver may crash";
  auto it = Start(Numbers(70).Batch(7));
  DeviceBatch batch;
  {
    TestStream stream(device_);
    ASSERT_OK(it->Next(&batch, stream.get()));
  }
  batch = DeviceBatch();
  EXPECT_FAILS(it->Next(&batch), kInternal,
               "a stream that uses a batch must live until the batch is released");
  EXPECT_THAT(TakeMisuses(), HasSubstr("the stream is gone"));
}

}  // namespace
}  // namespace shardfeed::testing
