#include "tests/cuda/stand_in_driver.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/cuda_fixture.h"

namespace shardfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Tests that the stand-in reports what the tests in other files must not do.
class StandInDriverTest : public CudaTest {
 protected:
  static constexpr size_t kBytes = 100'000;

  void SetUp() override {
    CudaTest::SetUp();
    // Slow copies: 10 ms each.
    Function<void (*)(double, double)>("StandInSetSpeed")(1e7, 1e-3);
    d_ = &device_->driver();
    scope_ = std::make_unique<CudaContextScope>(*device_);
    d_->MemHostRegister(host_.data(), kBytes, 0);
    d_->MemAlloc(&memory_, kBytes);
    d_->StreamCreate(&a_, kCuStreamNonBlocking);
    d_->StreamCreate(&b_, kCuStreamNonBlocking);
    d_->EventCreate(&event_, 0);
  }
  void TearDown() override {
    d_->StreamDestroy(a_);
    d_->StreamDestroy(b_);
    d_->EventDestroy(event_);
    if (memory_ != 0) d_->MemFree(memory_);
    d_->MemHostUnregister(host_.data());
    scope_.reset();
    CudaTest::TearDown();
  }
  void Upload(CuStream stream) { d_->MemcpyHtoDAsync(memory_, host_.data(), kBytes, stream); }
  void Download(CuStream stream) { d_->MemcpyDtoHAsync(back_.data(), memory_, kBytes, stream); }

  const CudaDriver* d_ = nullptr;
  std::unique_ptr<CudaContextScope> scope_;
  std::vector<char> host_ = std::vector<char>(kBytes, 1);
  std::vector<char> back_ = std::vector<char>(kBytes);
  CuDevicePtr memory_ = 0;
  CuStream a_ = nullptr;
  CuStream b_ = nullptr;
  CuEvent event_ = nullptr;
};

TEST_F(StandInDriverTest, EventsOrderStreams) {
  Upload(a_);
  d_->EventRecord(event_, a_);
  EXPECT_EQ(d_->EventQuery(event_), kCuErrorNotReady);
  d_->StreamWaitEvent(b_, event_, 0);
  Download(b_);
  d_->StreamSynchronize(b_);
  EXPECT_EQ(back_, host_);
  EXPECT_EQ(d_->EventQuery(event_), kCuSuccess);
}

TEST_F(StandInDriverTest, AReadThatDoesNotWaitForTheEventIsSeen) {
  Upload(a_);
  Download(b_);
  EXPECT_THAT(TakeMisuses(), HasSubstr("reads what stream"));
}

TEST_F(StandInDriverTest, ABufferThatIsUsedAgainTooEarlyIsSeen) {
  Upload(a_);
  d_->EventRecord(event_, a_);
  d_->StreamWaitEvent(b_, event_, 0);
  Download(b_);
  Upload(a_);  // b_ may still be reading
  EXPECT_THAT(TakeMisuses(), HasSubstr("overwrites what stream"));
}

TEST_F(StandInDriverTest, AWaitOfTheHostOrders) {
  Upload(a_);
  d_->StreamSynchronize(a_);
  Download(b_);
  d_->EventRecord(event_, b_);
  d_->EventSynchronize(event_);
  Upload(a_);
}

TEST_F(StandInDriverTest, TheLegacyStreamComesAfterThoseThatBlock) {
  CuStream blocking;
  d_->StreamCreate(&blocking, 0);
  Upload(blocking);
  Download(nullptr);
  Upload(blocking);
  d_->StreamSynchronize(blocking);
  Upload(CuStreamPerThread());
  Download(CuStreamLegacy());
  d_->StreamSynchronize(nullptr);
  EXPECT_EQ(TakeMisuses(), "");
  d_->StreamDestroy(blocking);
}

TEST_F(StandInDriverTest, ASourceThatIsNotPinnedIsSeen) {
  std::vector<char> other(kBytes);
  EXPECT_EQ(d_->MemcpyHtoDAsync(memory_, other.data(), kBytes, a_), kCuErrorInvalidValue);
  EXPECT_THAT(TakeMisuses(), HasSubstr("the source is not pinned"));
}

TEST_F(StandInDriverTest, ACallThatInvalidatesACaptureIsSeen) {
  const auto begin = Function<CuResult (*)(CuStream, int)>("cuStreamBeginCapture_v2");
  const auto end = Function<CuResult (*)(CuStream, void**)>("cuStreamEndCapture");
  void* graph;
  int status = -1;
  ASSERT_EQ(begin(a_, kCuCaptureModeGlobal), kCuSuccess);
  EXPECT_EQ(d_->StreamIsCapturing(a_, &status), kCuSuccess);
  EXPECT_EQ(status, kCuCaptureActive);
  EXPECT_EQ(d_->EventQuery(event_), kCuSuccess);  // the scope's capture mode is relaxed
  EXPECT_EQ(end(a_, &graph), kCuSuccess);
  int mode = kCuCaptureModeGlobal;
  d_->ThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(mode, kCuCaptureModeRelaxed);
  ASSERT_EQ(begin(a_, kCuCaptureModeGlobal), kCuSuccess);
  EXPECT_EQ(d_->EventQuery(event_), kCuErrorCaptureUnsupported);
  EXPECT_THAT(TakeMisuses(), HasSubstr("cuEventQuery: invalidates a capture"));
  EXPECT_EQ(end(a_, &graph), kCuErrorCaptureInvalidated);
  d_->ThreadExchangeStreamCaptureMode(&mode);
}

TEST_F(StandInDriverTest, AWaitOfACapturedStreamForOneThatIsNotIsSeen) {
  const auto begin = Function<CuResult (*)(CuStream, int)>("cuStreamBeginCapture_v2");
  const auto end = Function<CuResult (*)(CuStream, void**)>("cuStreamEndCapture");
  void* graph;
  d_->EventRecord(event_, b_);
  ASSERT_EQ(begin(a_, kCuCaptureModeGlobal), kCuSuccess);
  EXPECT_EQ(d_->StreamWaitEvent(a_, event_, 0), kCuErrorCaptureIsolation);
  EXPECT_THAT(TakeMisuses(), HasSubstr("what is captured waits for what is not"));
  EXPECT_EQ(end(a_, &graph), kCuErrorCaptureInvalidated);
  ASSERT_EQ(begin(a_, kCuCaptureModeGlobal), kCuSuccess);
  EXPECT_EQ(d_->CtxSynchronize(), kCuErrorCaptureUnsupported);
  EXPECT_THAT(TakeMisuses(), HasSubstr("cuCtxSynchronize: invalidates a capture"));
  EXPECT_EQ(end(a_, &graph), kCuErrorCaptureInvalidated);
}

TEST_F(StandInDriverTest, AChildAfterForkEnds) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has no children of processes with threads";
#endif
  EXPECT_DEATH(d_->StreamSynchronize(a_), "called in a child after fork");
}

TEST_F(StandInDriverTest, MemoryThatIsFreedWhileInUseIsSeen) {
  Upload(a_);
  d_->MemFree(std::exchange(memory_, 0));
  EXPECT_THAT(TakeMisuses(), HasSubstr("cuMemFree: work on it is under way"));
  d_->MemFree(1234);
  EXPECT_THAT(TakeMisuses(), HasSubstr("freed twice?"));
}

TEST_F(StandInDriverTest, MemoryThatIsUnpinnedWhileInUseIsSeen) {
  Upload(a_);
  d_->MemHostUnregister(host_.data());
  EXPECT_THAT(TakeMisuses(), HasSubstr("a copy from it is under way"));
  d_->StreamSynchronize(a_);
  d_->MemHostRegister(host_.data(), kBytes, 0);
}

TEST_F(StandInDriverTest, TheWrongContextIsSeen) {
  absl::StatusOr<std::shared_ptr<const CudaDevice>> other = CudaDevice::Open(1);
  ASSERT_OK(other);
  {
    const CudaContextScope scope(**other);
    CuEvent event;
    d_->EventCreate(&event, 0);
    EXPECT_EQ(d_->EventRecord(event, a_), kCuErrorInvalidHandle);
    EXPECT_THAT(TakeMisuses(), HasSubstr("different contexts"));
    CuStream stream;
    d_->StreamCreate(&stream, 0);
    Upload(stream);
    EXPECT_THAT(TakeMisuses(), AllOf(HasSubstr("memory of device 0 on a stream of device 1"),
                                     HasSubstr("the source is pinned for device 0, not for 1")));
    d_->StreamDestroy(stream);
  }
  other->reset();
  EXPECT_THAT(TakeMisuses(), HasSubstr("device 1: left over: 0 streams, 1 events"));
  CuContext popped;
  d_->CtxPopCurrent(&popped);
  CuEvent event;
  EXPECT_EQ(d_->EventCreate(&event, 0), kCuErrorInvalidContext);
  EXPECT_THAT(TakeMisuses(), HasSubstr("cuEventCreate: no context is current"));
  d_->CtxPushCurrent(popped);
}

}  // namespace
}  // namespace shardfeed::testing
