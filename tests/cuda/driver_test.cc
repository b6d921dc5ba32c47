#include "cuda/driver.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cuda/device.h"
#include "gtest/gtest.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

TEST(DriverTest, WithoutADriverTheErrorTellsWhatWasLookedFor) {
  unsetenv("SHARDFEED_CUDA_DRIVER");
  absl::StatusOr<const CudaDriver*> driver = CudaDriver::Load();
  if (driver.ok()) GTEST_SKIP() << "this machine has a CUDA driver";
  if (std::string(driver.status().message()).find("no CUDA device") == std::string::npos) {
    EXPECT_FAILS(driver, kUnavailable, "cannot load libcuda.so.1, which NVIDIA's driver installs");
    EXPECT_FAILS(driver, kUnavailable, "set SHARDFEED_CUDA_DRIVER to its path");
  }
}

TEST(DriverTest, APathThatNamesNothingIsNamed) {
  setenv("SHARDFEED_CUDA_DRIVER", "/nowhere/libcuda.so", 1);
  EXPECT_FAILS(CudaDriver::Load(), kUnavailable,
               "SHARDFEED_CUDA_DRIVER names '/nowhere/libcuda.so', which cannot be loaded");
}

TEST(DriverTest, ALibraryThatIsNoDriverIsToldByWhatIsMissing) {
  setenv("SHARDFEED_CUDA_DRIVER", "libz.so.1", 1);
  EXPECT_FAILS(CudaDriver::Load(), kUnavailable, "lacks cuInit, cuDriverGetVersion");
}

TEST(DriverTest, WithoutADeviceTheErrorTellsWhatIsVisible) {
  setenv("SHARDFEED_CUDA_DRIVER", "tests/cuda/libcuda_stand_in.so", 1);
  setenv("STAND_IN_DEVICES", "0", 1);
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_FAILS(CudaDriver::Load(), kUnavailable, "no CUDA device: ");
  EXPECT_FAILS(CudaDriver::Load(), kUnavailable, "CUDA_VISIBLE_DEVICES is '7', and /dev/nvidiactl");
  unsetenv("CUDA_VISIBLE_DEVICES");
  // A failure is not remembered.
  setenv("STAND_IN_DEVICES", "2", 1);
  EXPECT_OK(CudaDriver::Load());
  EXPECT_FAILS(CudaDevice::Open(2), kInvalidArgument,
               "there is no CUDA device 2; the driver tests/cuda/libcuda_stand_in.so lets this "
               "process see 2 (0: stand-in 0, 1: stand-in 1); CUDA_VISIBLE_DEVICES is not set");
  EXPECT_FAILS(CudaDevice::Open(-1), kInvalidArgument, "there is no CUDA device -1");
  EXPECT_FAILS(CudaDevice::NameOf(2), kInvalidArgument, "there is no CUDA device 2");
  EXPECT_EQ(*CudaDevice::NameOf(1), "stand-in 1");
}

// What NameOf(0) says in a child after fork: the name, or an error.
std::string NameInChild() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<std::string> name = CudaDevice::NameOf(0);
    const std::string text = name.ok() ? *name : std::string(name.status().message());
    _exit(write(ends[1], text.data(), text.size()) < 0);
  }
  close(ends[1]);
  std::string text(1000, '\0');
  text.resize(std::max<ssize_t>(read(ends[0], text.data(), text.size()), 0));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return text;
}

TEST(DriverForkTest, OnlyAChildWhoseParentHasNotUsedCudaMayUseIt) {
  // In a process that has not used it: the tests share one.
  const auto run = [] {
    setenv("SHARDFEED_CUDA_DRIVER", "tests/cuda/libcuda_stand_in.so", 1);
    EXPECT_EQ(NameInChild(), "stand-in 0");
    EXPECT_EQ(*CudaDevice::NameOf(0), "stand-in 0");
    EXPECT_EQ(NameInChild(),
              "this process was forked after its parent had used CUDA, which does not work in the "
              "child; fork before the parent uses CUDA, or start the process by spawn instead of "
              "fork");
    EXPECT_EQ(*CudaDevice::NameOf(0), "stand-in 0");
    std::_Exit(::testing::Test::HasFailure());
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace shardfeed
