#include "cuda/pinned_pool.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "gtest/gtest.h"
#include "tests/cuda/cuda_fixture.h"

namespace shardfeed::testing {
namespace {

class PinnedPoolTest : public CudaTest {};

constexpr size_t kMiB = 1 << 20;

TEST_F(PinnedPoolTest, BlocksArePinnedAlignedAndUsedAgain) {
  auto pool = PinnedPool::Create(device_, 64 * kMiB);
  std::shared_ptr<char> block = pool->Allocate(5 * kMiB + 1);
  const char* place = block.get();
  std::memset(block.get(), 1, 5 * kMiB + 1);
  EXPECT_EQ(reinterpret_cast<size_t>(place) % 4096, 0);
  EXPECT_TRUE(pool->Contains(place, 5 * kMiB + 1));
  EXPECT_TRUE(pool->Contains(place + kMiB, 0));
  EXPECT_FALSE(pool->Contains(place, 64 * kMiB));
  EXPECT_FALSE(pool->Contains(&pool, 1));
  block.reset();
  EXPECT_EQ(pool->stats().idle_bytes, pool->stats().bytes);
  block = pool->Allocate(5 * kMiB);
  EXPECT_EQ(block.get(), place);
  EXPECT_EQ(pool->stats().idle_bytes, 0);
  EXPECT_NE(pool->Allocate(0), nullptr);
}

TEST_F(PinnedPoolTest, BlocksArePinnedForAllDevices) {
  absl::StatusOr<std::shared_ptr<const CudaDevice>> other = CudaDevice::Open(1);
  if (!other.ok()) GTEST_SKIP() << std::string(other.status().message());
  auto pool = PinnedPool::Create(device_, kMiB);
  std::shared_ptr<char> block = pool->Allocate(1000);
  std::memset(block.get(), 7, 1000);
  const CudaContextScope scope(**other);
  const CudaDriver& driver = (*other)->driver();
  CuDevicePtr memory = 0;
  ASSERT_EQ(driver.MemAlloc(&memory, 1000), kCuSuccess);
  {
    TestStream stream(*other);
    EXPECT_EQ(driver.MemcpyHtoDAsync(memory, block.get(), 1000, stream.get()), kCuSuccess);
    const auto back = stream.Read<char>(memory, 1000);
    stream.Wait();
    EXPECT_EQ(back->back(), 7);
  }
  driver.MemFree(memory);
}

TEST_F(PinnedPoolTest, BeyondTheLimitMemoryIsOrdinary) {
  auto pool = PinnedPool::Create(device_, 4 * kMiB);
  std::shared_ptr<char> first = pool->Allocate(4 * kMiB);
  std::shared_ptr<char> second = pool->Allocate(kMiB);
  std::memset(second.get(), 1, kMiB);
  EXPECT_TRUE(pool->Contains(first.get(), 1));
  EXPECT_FALSE(pool->Contains(second.get(), 1));
  EXPECT_EQ(pool->stats().refused, 1);
  EXPECT_EQ(pool->stats().bytes, 4 * kMiB);
  // Idle blocks of other sizes are freed to make room.
  first.reset();
  std::shared_ptr<char> third = pool->Allocate(kMiB);
  EXPECT_TRUE(pool->Contains(third.get(), kMiB));
  EXPECT_LE(pool->stats().bytes, 4 * kMiB);
  // Memory that must be pinned exceeds the limit, and is unpinned when it is returned.
  absl::StatusOr<std::shared_ptr<char>> more = pool->AllocatePinned(8 * kMiB);
  ASSERT_OK(more);
  EXPECT_TRUE(pool->Contains(more->get(), 8 * kMiB));
  more->reset();
  EXPECT_LE(pool->stats().bytes, 4 * kMiB);
}

TEST_F(PinnedPoolTest, WhatTheSystemDoesNotPinIsOrdinaryMemoryOrAnError) {
  if (!kStandIn) GTEST_SKIP() << "only the stand-in driver refuses";
  setenv("STAND_IN_PINNED_LIMIT", "65536", 1);
  auto pool = PinnedPool::Create(device_, 64 * kMiB);
  std::shared_ptr<char> block = pool->Allocate(kMiB);
  std::memset(block.get(), 1, kMiB);
  EXPECT_FALSE(pool->Contains(block.get(), 1));
  EXPECT_EQ(pool->stats().bytes, 0);
  EXPECT_FAILS(pool->AllocatePinned(kMiB), kResourceExhausted,
               "cannot pin 1048576 bytes of memory: cuMemHostRegister: "
               "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(pool->stats().bytes, 0);
  unsetenv("STAND_IN_PINNED_LIMIT");
}

TEST_F(PinnedPoolTest, ThreadsMayShareIt) {
  auto pool = PinnedPool::Create(device_, 2 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (size_t i = 0; i < 50; ++i) {
        const size_t size = 10000 * (1 + (i + t) % 30);
        std::shared_ptr<char> block = pool->Allocate(size);
        std::memset(block.get(), t, size);
        EXPECT_EQ(block.get()[size - 1], t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool->stats().bytes, 2 * kMiB);
}

// Whether 1,000 bytes that this process has are missing in a child after fork.
bool IsMissingAfterFork(const char* memory) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  EXPECT_EQ(write(ends[1], memory, 1000), 1000);
  const pid_t child = fork();
  if (child == 0) _exit(write(ends[1], memory, 1000) < 0 && errno == EFAULT ? 7 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  close(ends[0]);
  close(ends[1]);
  return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

// The device keeps using the original physical pages, so fork must not make copies of them.
TEST_F(PinnedPoolTest, AChildAfterForkDoesNotHaveTheMemory) {
  void* const pages =
      mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(madvise(pages, kMiB, MADV_DONTFORK), 0);
  const bool is_heeded = IsMissingAfterFork(static_cast<const char*>(pages));
  munmap(pages, kMiB);
  if (!is_heeded) GTEST_SKIP() << "MADV_DONTFORK does nothing here, as under qemu";
  const auto pool = PinnedPool::Create(device_, 1 << 20);
  EXPECT_TRUE(IsMissingAfterFork(pool->Allocate(1000).get()));
}

}  // namespace
}  // namespace shardfeed::testing
