// Tests that need a CUDA device: the stand-in driver's, or with -DREAL_DEVICE this machine's.

#ifndef SHARDFEED_TESTS_CUDA_CUDA_FIXTURE_H_
#define SHARDFEED_TESTS_CUDA_CUDA_FIXTURE_H_

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "tests/cuda/stand_in_driver.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {

#ifdef REAL_DEVICE
constexpr bool kStandIn = false;
#else
constexpr bool kStandIn = true;
#endif

class CudaTest : public ::testing::Test {
 protected:
  static constexpr const char* kPath = "tests/cuda/libcuda_stand_in.so";

  void SetUp() override {
    if (kStandIn) setenv("SHARDFEED_CUDA_DRIVER", kPath, 1);
    absl::StatusOr<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(0);
    if (!kStandIn && !device.ok()) GTEST_SKIP() << std::string(device.status().message());
    ASSERT_OK(device);
    device_ = *std::move(device);
    if (kStandIn) {
      Function<void (*)(double, double)>("StandInSetSpeed")(1e9, 1e-4);
      TakeMisuses();
    }
  }
  // Leaks are reported when the last holder of a context is gone.
  void TearDown() override {
    device_.reset();
    EXPECT_EQ(TakeMisuses(), "");
  }

  static std::string TakeMisuses() {
    return kStandIn ? Function<const char* (*)()>("StandInTakeMisuses")() : "";
  }
  template <typename F>
  static F Function(const char* name) {
    void* library = dlopen(kPath, RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(library, nullptr);
    auto function = reinterpret_cast<F>(dlsym(library, name));
    EXPECT_NE(function, nullptr) << name;
    dlclose(library);
    return function;
  }

  std::shared_ptr<const CudaDevice> device_;
};

// A stream of a device, such as a consumer's.
class TestStream {
 public:
  explicit TestStream(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {
    const CudaContextScope scope(*device_);
    EXPECT_EQ(device_->driver().StreamCreate(&stream_, kCuStreamNonBlocking), kCuSuccess);
  }
  ~TestStream() {
    const CudaContextScope scope(*device_);
    device_->driver().StreamSynchronize(stream_);
    device_->driver().StreamDestroy(stream_);
  }

  CuStream get() const { return stream_; }
  // Enqueues a copy of `count` values to the host; they are in place after Wait.
  template <typename T>
  std::shared_ptr<std::vector<T>> Read(CuDevicePtr from, size_t count) {
    auto values = std::make_shared<std::vector<T>>(count);
    const CudaContextScope scope(*device_);
    if (count > 0) {
      EXPECT_EQ(device_->driver().MemcpyDtoHAsync(values->data(), from, count * sizeof(T), stream_),
                kCuSuccess);
    }
    return values;
  }
  void Wait() {
    const CudaContextScope scope(*device_);
    EXPECT_EQ(device_->driver().StreamSynchronize(stream_), kCuSuccess);
  }

 private:
  const std::shared_ptr<const CudaDevice> device_;
  CuStream stream_ = nullptr;
};

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_CUDA_CUDA_FIXTURE_H_
