// One suite for every way of reading.

#include "io/engine.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "io/budget.h"
#include "io/engine_choice.h"
#include "io/page_cache.h"
#include "io/slab.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::TestFolder;

struct Way {
  const char* name;
  EngineKind kind;
  bool inline_reads;
  bool direct;
  bool slabs = false;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

std::string RandomBytes(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

class EngineTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (MakeWay() == nullptr) GTEST_SKIP() << "io_uring may not be used here";
  }

  std::unique_ptr<Engine> MakeWay(int depth = 8) {
    EngineOptions options;
    options.kind = GetParam().kind;
    options.inline_reads = GetParam().inline_reads;
    options.direct = GetParam().direct;
    options.depth = depth;
    if (GetParam().slabs) options.pool = BufferPool::Create(0, BufferPool::Memory::kSlabs);
    auto engine = MakeEngine(options);
    if (absl::IsUnavailable(engine.status())) return nullptr;
    EXPECT_OK(engine);
    return *std::move(engine);
  }

  std::shared_ptr<const File> Make(std::string_view name, std::string_view bytes) {
    return *File::Open(folder_.Write(name, bytes));
  }

  // All results, in the order of their tags.
  static std::vector<ReadResult> Finish(Engine& engine) {
    std::vector<ReadResult> results;
    while (engine.outstanding() > 0) engine.Wait(1, &results);
    std::sort(results.begin(), results.end(), [](auto& a, auto& b) { return a.tag < b.tag; });
    return results;
  }

  TestFolder folder_;
};

TEST_P(EngineTest, ReadsAnyPartOfAFile) {
  for (size_t size : {1, 511, 4096, 4097, 100'000, 3'000'001}) {
    const std::string bytes = RandomBytes(size, size);
    const auto file = Make("f", bytes);
    const auto engine = MakeWay();
    std::vector<ReadRequest> requests;
    std::mt19937_64 random(1);
    requests.push_back({file, 0, size, 0});
    requests.push_back({file, 0, 0, 1});
    requests.push_back({file, size, 0, 2});
    requests.push_back({file, size - 1, 1, 3});
    for (uint64_t tag = 4; tag < 100; ++tag) {
      const uint64_t offset = random() % size;
      requests.push_back({file, offset, random() % (size - offset) + 1, tag});
    }
    engine->Submit(requests);
    EXPECT_EQ(engine->outstanding(), requests.size());
    const std::vector<ReadResult> results = Finish(*engine);
    ASSERT_EQ(results.size(), requests.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_OK(results[i].status);
      ASSERT_EQ(results[i].tag, i);
      ASSERT_EQ(results[i].data, bytes.substr(requests[i].offset, requests[i].length));
    }
    EXPECT_EQ(engine->stats().requests, requests.size());
    EXPECT_GE(engine->stats().bytes_read, size);
  }
}

TEST_P(EngineTest, ReadsManyFilesAtOnce) {
  const auto engine = MakeWay();
  std::vector<ReadRequest> requests;
  for (uint64_t i = 0; i < 50; ++i) {
    requests.push_back(
        {Make("f" + std::to_string(i), RandomBytes(1000 * i + 1, i)), i, 900 * i, i});
  }
  for (const ReadRequest& request : requests) engine->Submit({&request, 1});
  const std::vector<ReadResult> results = Finish(*engine);
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_OK(results[i].status);
    EXPECT_EQ(results[i].data, RandomBytes(1000 * i + 1, i).substr(i, 900 * i));
  }
}

TEST_P(EngineTest, ReadsIntoMemoryThatIsGiven) {
  const std::string bytes = RandomBytes(50'000, 3);
  const auto file = Make("f", bytes);
  const auto engine = MakeWay();
  std::vector<ReadRequest> requests;
  std::shared_ptr<Buffer> into = Buffer::Allocate(50'000);
  for (uint64_t i = 0; i < 50; ++i)
    requests.push_back({file, 1000 * (49 - i), 1000, i, into, 1000 * i});
  engine->Submit(requests);
  for (const ReadResult& result : Finish(*engine)) {
    ASSERT_OK(result.status);
    EXPECT_EQ(result.data, bytes.substr(1000 * (49 - result.tag), 1000));
  }
}

TEST_P(EngineTest, FileThatEndsTooSoon) {
  const std::string bytes = RandomBytes(10'000, 1);
  const auto file = Make("cut", bytes);
  const auto engine = MakeWay();
  const std::vector<ReadRequest> requests = {
      {file, 0, 10'001, 0}, {file, 10'000, 1, 1}, {file, 20'000, 5, 2}, {file, 0, 10'000, 3}};
  engine->Submit(requests);
  const std::vector<ReadResult> results = Finish(*engine);
  EXPECT_FAILS(results[0].status, kDataLoss,
               folder_ / "cut: ends at byte 10000, but there should be data up to byte 10001");
  EXPECT_FAILS(results[1].status, kDataLoss, "cut: ends at byte");
  EXPECT_FAILS(results[2].status, kDataLoss, "cut: ends at byte");
  ASSERT_OK(results[3].status);
  EXPECT_EQ(results[3].data, bytes);
}

TEST_P(EngineTest, FileThatIsCutAfterItWasOpened) {
  const auto file = Make("f", RandomBytes(1 << 20, 1));
  std::filesystem::resize_file(folder_ / "f", 5000);
  const auto engine = MakeWay();
  const std::vector<ReadRequest> requests = {{file, 0, 1 << 20, 0}, {file, 100, 4900, 1}};
  engine->Submit(requests);
  const std::vector<ReadResult> results = Finish(*engine);
  EXPECT_FAILS(results[0].status, kDataLoss, "ends at byte 5000");
  EXPECT_EQ(results[1].data, RandomBytes(1 << 20, 1).substr(100, 4900));
}

TEST_P(EngineTest, ViewsOutliveTheEngine) {
  const std::string bytes = RandomBytes(300'000, 5);
  std::vector<ReadResult> results;
  {
    const auto file = Make("f", bytes);
    const auto engine = MakeWay();
    const ReadRequest request = {file, 7, 290'000, 0};
    engine->Submit({&request, 1});
    results = Finish(*engine);
  }
  EXPECT_EQ(results[0].data, bytes.substr(7, 290'000));
}

TEST_P(EngineTest, CanBeDestroyedWithReadsUnderWay) {
  const auto file = Make("f", RandomBytes(1 << 20, 1));
  for (int wait : {0, 1, 5}) {
    const auto engine = MakeWay();
    std::vector<ReadRequest> requests(100, {file, 0, 1 << 20, 0});
    engine->Submit(requests);
    std::vector<ReadResult> results;
    engine->Wait(wait, &results);
    EXPECT_GE(results.size(), wait);
  }
}

TEST_P(EngineTest, WaitWithNothingToWaitForReturns) {
  const auto engine = MakeWay();
  std::vector<ReadResult> results;
  engine->Wait(5, &results);
  engine->Wait(0, &results);
  EXPECT_EQ(results.size(), 0);
}

TEST_P(EngineTest, WakeMakesWaitReturnAndLosesNothing) {
  const auto file = Make("f", RandomBytes(1 << 20, 1));
  const auto engine = MakeWay();
  std::thread waker([&engine] {
    for (int i = 0; i < 200; ++i) engine->Wake();
  });
  uint64_t seen = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<ReadRequest> requests(20, {file, 0, 10'000, 0});
    engine->Submit(requests);
    std::vector<ReadResult> results;
    while (engine->outstanding() > 0) engine->Wait(20, &results);
    seen += results.size();
  }
  waker.join();
  EXPECT_EQ(seen, 400);
}

TEST_P(EngineTest, ManyEnginesOnManyThreads) {
  const std::string bytes = RandomBytes(200'000, 9);
  const auto file = Make("f", bytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto engine = MakeWay();
      for (int round = 0; round < 10; ++round) {
        std::vector<ReadRequest> requests;
        for (uint64_t i = 0; i < 20; ++i) requests.push_back({file, 1000 * i + t, 5000, i});
        engine->Submit(requests);
        for (const ReadResult& result : Finish(*engine)) {
          EXPECT_EQ(result.data, bytes.substr(1000 * result.tag + t, 5000));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    Ways, EngineTest,
    ::testing::Values(Way{"uring", EngineKind::kUring, false, false},
                      Way{"uring_direct", EngineKind::kUring, false, true},
                      Way{"uring_slabs", EngineKind::kUring, false, false, true},
                      Way{"uring_direct_slabs", EngineKind::kUring, false, true, true},
                      Way{"threads", EngineKind::kThreads, false, false},
                      Way{"threads_direct", EngineKind::kThreads, false, true},
                      Way{"threads_direct_slabs", EngineKind::kThreads, false, true, true},
                      Way{"inline", EngineKind::kThreads, true, false},
                      Way{"inline_direct", EngineKind::kThreads, true, true},
                      Way{"mmap", EngineKind::kMmap, false, false}),
    [](const auto& info) { return info.param.name; });

// ---- What is registered with a ring

// Reads 300 parts of the file and tells what was registered.
std::string ReadDirectly(const std::shared_ptr<const File>& file, const std::string& bytes) {
  EngineOptions options;
  options.kind = EngineKind::kUring;
  options.direct = true;
  options.pool = BufferPool::Create(0, BufferPool::Memory::kSlabs);
  const auto engine = MakeEngine(options);
  if (!engine.ok()) return "";
  for (int round = 0; round < 3; ++round) {
    std::vector<ReadRequest> requests;
    for (uint64_t i = 0; i < 100; ++i) requests.push_back({file, 977 * i, 100'000, i});
    (*engine)->Submit(requests);
    std::vector<ReadResult> results;
    while ((*engine)->outstanding() > 0) (*engine)->Wait(1, &results);
    for (const ReadResult& result : results) {
      if (result.data != std::string_view(bytes).substr(977 * result.tag, 100'000)) return "wrong";
    }
  }
  return (*engine)->stats().registered;
}

TEST(UringEngine, RegistersFilesAndBuffers) {
  TestFolder folder;
  const std::string bytes = RandomBytes(200'000, 1);
  const auto file = *File::Open(folder.Write("f", bytes));
  if (file->direct_fd() < 0) GTEST_SKIP() << "no O_DIRECT here";
  const std::string registered = ReadDirectly(file, bytes);
  if (registered.empty()) GTEST_SKIP() << "io_uring may not be used here";
  EXPECT_TRUE(registered == "files and buffers" ||
              registered.find("not buffers: ") != std::string::npos ||
              registered.find("this kernel cannot") != std::string::npos)
      << registered;
}

TEST(UringEngine, WithoutMemoryThatMayBeLockedReadsAllTheSame) {
  TestFolder folder;
  const std::string bytes = RandomBytes(200'000, 1);
  const auto file = *File::Open(folder.Write("f", bytes));
  if (file->direct_fd() < 0) GTEST_SKIP() << "no O_DIRECT here";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none = {64 << 10, 64 << 10};
    // The superuser may lock what it likes.
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (::getuid() == 0 && ::setuid(65534) != 0)) {
      std::_Exit(77);
    }
    const std::string registered = ReadDirectly(file, bytes);
    if (registered.empty()) std::_Exit(77);
    std::_Exit(registered.find("not buffers: no more than 64 KiB may be locked (ulimit -l)") !=
                       std::string::npos
                   ? 0
                   : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot be tried here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A ring knows files by their numbers; one that comes later at the same address is another.
TEST(UringEngine, ManyFilesOneAfterAnother) {
  TestFolder folder;
  EngineOptions options;
  options.kind = EngineKind::kUring;
  const auto engine = MakeEngine(options);
  if (absl::IsUnavailable(engine.status())) GTEST_SKIP() << "io_uring may not be used here";
  for (int i = 0; i < 7; ++i) folder.Write(std::to_string(i), std::to_string(i));
  for (int i = 0; i < 1500; ++i) {
    const auto file = *File::Open(folder / std::to_string(i % 7));
    const ReadRequest request = {file, 0, 1, 0};
    (*engine)->Submit({&request, 1});
    std::vector<ReadResult> results;
    (*engine)->Wait(1, &results);
    ASSERT_EQ(results.size(), 1);
    ASSERT_OK(results[0].status);
    ASSERT_EQ(results[0].data, std::to_string(i % 7));
  }
  // More than there is room for, all open.
  std::vector<ReadRequest> requests;
  for (uint64_t i = 0; i < 1100; ++i) {
    requests.push_back({*File::Open(folder / std::to_string(i % 7)), 0, 1, i});
  }
  for (int round = 0; round < 2; ++round) {
    (*engine)->Submit(requests);
    std::vector<ReadResult> results;
    while ((*engine)->outstanding() > 0) (*engine)->Wait(1, &results);
    for (const ReadResult& result : results) {
      ASSERT_OK(result.status);
      ASSERT_EQ(result.data, std::to_string(result.tag % 7));
    }
  }
}

TEST(MmapEngine, NeighboursShareAMapping) {
  TestFolder folder;
  const std::string bytes = RandomBytes(20 << 20, 1);
  std::vector<ReadResult> results;
  {
    const auto file = *File::Open(folder.Write("f", bytes));
    EngineOptions options;
    options.kind = EngineKind::kMmap;
    const auto engine = *MakeEngine(options);
    engine->Submit(std::vector<ReadRequest>{
        {file, 5000, 1 << 20, 0}, {file, 9 << 20, 7 << 20, 1}, {file, 12 << 20, 8 << 20, 2}});
    engine->Wait(3, &results);
  }
  ASSERT_EQ(results.size(), 3);
  EXPECT_EQ(results[0].buffer, results[1].buffer);
  EXPECT_NE(results[1].buffer, results[2].buffer);
  // Those that are left keep what they need.
  results[0] = ReadResult();
  EXPECT_EQ(results[1].data, std::string_view(bytes).substr(9 << 20, 7 << 20));
  EXPECT_EQ(results[2].data, std::string_view(bytes).substr(12 << 20));
}

// ---- The choice

TEST(EngineChoice, EnvironmentDecidesForAuto) {
  EngineOptions options;
  for (const char* name : {"threads", "mmap"}) {
    ::setenv("SHARDFEED_IO", name, 1);
    const auto engine = MakeEngine(options);
    ASSERT_OK(engine);
    EXPECT_EQ((*engine)->stats().mode, name);
    EXPECT_EQ((*engine)->stats().reason, std::string("SHARDFEED_IO=") + name);
  }
  options.kind = EngineKind::kMmap;
  ::setenv("SHARDFEED_IO", "threads", 1);
  EXPECT_EQ((*MakeEngine(options))->stats().mode, "mmap");
  options.kind = EngineKind::kAuto;
  ::setenv("SHARDFEED_IO", "floppy", 1);
  EXPECT_FAILS(MakeEngine(options), kInvalidArgument,
               "SHARDFEED_IO: 'floppy' is no way of reading: it is auto, uring, threads or mmap");
  ::unsetenv("SHARDFEED_IO");
}

// Numbers of system calls, on every architecture.
constexpr uint32_t kUringSetup = 425;
constexpr uint32_t kUringEnter = 426;

// Makes a system call fail with `error` in this thread and those that it starts, as a container's
// filter does.
bool Forbid(uint32_t call, uint32_t error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {4, filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(EngineChoice, WithoutUringThreadsRead) {
  TestFolder folder;
  const auto file = *File::Open(folder.Write("f", "0123456789"));
  for (const auto& [error, text] :
       {std::pair<uint32_t, std::string>(EPERM, "io_uring is forbidden"),
        {ENOSYS, "this kernel has no io_uring"}}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!Forbid(kUringSetup, error)) std::_Exit(77);
      const auto engine = MakeEngine(EngineOptions());
      if (!engine.ok()) std::_Exit(1);
      if ((*engine)->stats().mode != "threads") std::_Exit(2);
      if ((*engine)->stats().reason.find(text) == std::string::npos) std::_Exit(3);
      EngineOptions forced;
      forced.kind = EngineKind::kUring;
      if (!absl::IsUnavailable(MakeEngine(forced).status())) std::_Exit(4);
      std::_Exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

// A ring that was set up, and that the kernel later refuses to enter.
TEST(EngineChoice, RingThatBreaksIsReplacedByThreads) {
  TestFolder folder;
  const std::string bytes = RandomBytes(3'000'000, 1);
  const auto file = *File::Open(folder.Write("f", bytes));
  for (bool direct : {false, true}) {
    for (int before : {0, 3, 40}) {
      std::string skipped;
      // A filter is its thread's, and cannot be taken away.
      std::thread([&] {
        EngineOptions options;
        options.kind = EngineKind::kUring;
        options.direct = direct;
        options.depth = 8;
        auto engine = MakeEngine(options);
        if (!engine.ok()) {
          skipped = "io_uring may not be used here";
          return;
        }
        std::vector<ReadRequest> requests;
        std::shared_ptr<Buffer> into = Buffer::Allocate(100 * 30'000);
        for (uint64_t i = 0; i < 100; ++i) {
          requests.push_back({file, 20'000 * i + i, 30'000 - i, i});
          if (i % 2 == 0) {
            requests.back().into = into;
            requests.back().into_offset = i * 30'000;
          }
        }
        std::vector<ReadResult> results;
        (*engine)->Submit(absl::MakeSpan(requests).first(before));
        if (before > 8) (*engine)->Wait(1, &results);
        if (!Forbid(kUringEnter, EPERM)) {
          skipped = "no seccomp filters here";
          return;
        }
        (*engine)->Submit(absl::MakeSpan(requests).subspan(before));
        while ((*engine)->outstanding() > 0) {
          (*engine)->Wake();
          (*engine)->Wait(5, &results);
        }
        EXPECT_EQ(results.size(), 100);
        for (const ReadResult& result : results) {
          ASSERT_OK(result.status);
          const ReadRequest& request = requests[result.tag];
          EXPECT_EQ(result.data, bytes.substr(request.offset, request.length));
        }
        EXPECT_EQ((*engine)->stats().mode, direct ? "threads, direct" : "threads");
        EXPECT_NE((*engine)->stats().reason.find("forbidden"), std::string::npos);
        EXPECT_NE((*engine)->stats().reason.find("reading went on with pread"), std::string::npos);
        EXPECT_EQ((*engine)->stats().requests, 100);
      }).join();
      if (!skipped.empty()) GTEST_SKIP() << skipped;
    }
  }
}

// ---- Buffers and budgets

TEST(BufferPool, UsesBuffersAgainUpToItsBound) {
  const auto pool = BufferPool::Create(1 << 20);
  const char* first = nullptr;
  {
    const auto buffer = pool->Allocate(100'000);
    EXPECT_GE(buffer->size(), 100'000);
    EXPECT_LT(buffer->size(), 100'000 + 100'000 / 4);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0);
    first = buffer->data();
  }
  EXPECT_EQ(pool->Allocate(100'000)->data(), first);
  EXPECT_GE(pool->Allocate(0)->size(), 1);
  // Too large to be kept: must not be counted as idle.
  pool->Allocate(8 << 20);
  std::vector<std::shared_ptr<Buffer>> many;
  for (int i = 0; i < 100; ++i) many.push_back(pool->Allocate(100'000));
  std::set<char*> distinct;
  for (const auto& buffer : many) distinct.insert(buffer->data());
  EXPECT_EQ(distinct.size(), 100);
}

TEST(BufferPool, BuffersOutliveIt) {
  auto pool = BufferPool::Create(1 << 20);
  auto buffer = pool->Allocate(1000);
  pool = nullptr;
  std::fill_n(buffer->data(), 1000, 'x');
}

TEST(BufferPool, ManyThreads) {
  const auto pool = BufferPool::Create(1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        const auto buffer = pool->Allocate(1 + i * 977 % 300'000);
        buffer->data()[0] = static_cast<char>(t);
        EXPECT_EQ(buffer->data()[0], t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ByteBudget, CountsAndTellsOfRoom) {
  ByteBudget budget(100);
  int called = 0;
  budget.SetOnRoom([&called] { ++called; });
  EXPECT_TRUE(budget.TryReserve(60));
  EXPECT_FALSE(budget.TryReserve(41));
  EXPECT_TRUE(budget.TryReserve(40));
  EXPECT_FALSE(budget.TryReserve(UINT64_MAX));
  budget.ForceReserve(50);
  EXPECT_EQ(budget.used(), 150);
  EXPECT_FALSE(budget.TryReserve(1));
  budget.Release(100);
  EXPECT_EQ(called, 0);
  budget.NotifyOnRelease();
  budget.Release(10);
  budget.Release(10);
  EXPECT_EQ(called, 1);
  budget.NotifyOnRelease();
  budget.SetOnRoom(nullptr);
  budget.Release(10);
  EXPECT_EQ(called, 1);
  EXPECT_EQ(budget.used(), 20);
  EXPECT_EQ(budget.peak(), 150);
}

TEST(BufferPool, CutsBuffersFromSlabs) {
  const auto pool = BufferPool::Create(0, BufferPool::Memory::kSlabs);
  std::mt19937_64 random(1);
  std::vector<std::pair<std::shared_ptr<Buffer>, char>> buffers;
  std::set<const Slab*> slabs;
  for (int i = 0; i < 5000; ++i) {
    if (buffers.size() > 100 || (!buffers.empty() && random() % 3 == 0)) {
      const size_t gone = random() % buffers.size();
      const auto& [buffer, mark] = buffers[gone];
      ASSERT_EQ(std::count(buffer->data(), buffer->data() + 10, mark), 10);
      ASSERT_EQ(buffer->data()[buffer->size() - 1], mark);
      buffers.erase(buffers.begin() + static_cast<ptrdiff_t>(gone));
      continue;
    }
    const size_t size = random() % (random() % 2 == 0 ? 3'000'000 : 100'000);
    const char mark = static_cast<char>(random());
    auto buffer = pool->Allocate(size);
    ASSERT_NE(buffer->slab(), nullptr);
    ASSERT_GE(buffer->size(), std::max<size_t>(size, 1));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0);
    std::fill_n(buffer->data(), 10, mark);
    buffer->data()[buffer->size() - 1] = mark;
    slabs.insert(buffer->slab().get());
    buffers.emplace_back(std::move(buffer), mark);
  }
  EXPECT_GT(slabs.size(), 1);
  // What is larger has memory of its own.
  EXPECT_EQ(pool->Allocate(Slab::kBytes)->slab(), nullptr);
}

TEST(BufferPool, SlabsGoWhenTheirBuffersHaveGone) {
  const auto pool = BufferPool::Create(0, BufferPool::Memory::kSlabs);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::weak_ptr<Slab>> slabs;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(pool->Allocate(Slab::kBytes / 2));
    if (i % 2 == 0) slabs.push_back(buffers.back()->slab());
  }
  std::shared_ptr<Slab> held = slabs[1].lock();
  buffers.resize(1);
  EXPECT_FALSE(slabs[0].expired());
  EXPECT_TRUE(slabs[2].expired() && slabs[3].expired());
  buffers.clear();
  pool->Close();
  held = nullptr;
  for (const std::weak_ptr<Slab>& slab : slabs) EXPECT_TRUE(slab.expired());
  // A pool that is closed still has buffers for whoever asks.
  EXPECT_NE(pool->Allocate(1)->slab(), nullptr);
}

TEST(BufferPool, SlabsStayWhileAllTakeNoMoreThanTheyMay) {
  const auto pool = BufferPool::Create(3 * Slab::kBytes, BufferPool::Memory::kSlabs);
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::weak_ptr<Slab>> slabs;
  for (int i = 0; i < 5; ++i) {
    buffers.push_back(pool->Allocate(Slab::kBytes / 2));
    buffers.push_back(pool->Allocate(Slab::kBytes / 2));
    slabs.push_back(buffers.back()->slab());
  }
  buffers.clear();
  const auto left = std::count_if(slabs.begin(), slabs.end(),
                                  [](const std::weak_ptr<Slab>& slab) { return !slab.expired(); });
  EXPECT_EQ(left, 3);
  // They are used again.
  const auto again = pool->Allocate(1)->slab();
  EXPECT_TRUE(std::any_of(slabs.begin(), slabs.end(),
                          [&](const std::weak_ptr<Slab>& slab) { return slab.lock() == again; }));
}

TEST(Slab, TakesTheLowestPagesThatAreFree) {
  Slab slab;
  EXPECT_EQ(slab.Take(10), 0);
  EXPECT_EQ(slab.Take(100), 10);
  EXPECT_EQ(slab.Take(1), 110);
  slab.GiveBack(10, 100);
  EXPECT_EQ(slab.Take(101), 111);
  EXPECT_EQ(slab.Take(60), 10);
  EXPECT_EQ(slab.Take(40), 70);
  EXPECT_EQ(slab.Take(Slab::kBytes / Slab::kPage - 211), std::nullopt);
  EXPECT_EQ(slab.Take(Slab::kBytes / Slab::kPage - 212), 212);
  EXPECT_EQ(slab.Take(1), std::nullopt);
  slab.GiveBack(500, 64);
  EXPECT_EQ(slab.Take(65), std::nullopt);
  EXPECT_EQ(slab.Take(64), 500);
  EXPECT_FALSE(slab.empty());
  slab.GiveBack(0, Slab::kBytes / Slab::kPage);
  EXPECT_TRUE(slab.empty());
  EXPECT_EQ(slab.Take(Slab::kBytes / Slab::kPage), 0);
}

// ---- The page cache

TEST(PageCache, KnowsWhatIsCached) {
  TestFolder folder;
  const std::string bytes = RandomBytes(1 << 20, 1);
  const auto file = *File::Open(folder.Write("f", bytes));
  std::string read(bytes.size(), '\0');
  ASSERT_OK(file->ReadExactlyAt(0, absl::MakeSpan(read)));
  const auto cached = CachedBytes(*file, 0, bytes.size());
  ASSERT_OK(cached);
  EXPECT_EQ(*cached, 1 << 20);
  EXPECT_EQ(*CachedBytes(*file, 8192, 16384), 8192);
  EXPECT_EQ(*CachedBytes(*file, (1 << 20) - 4096, 1 << 21), 4096);
  EXPECT_EQ(*CachedBytes(*file, 1 << 20, 1 << 21), 0);
  DropFromCache(*file);
  EXPECT_LE(*CachedBytes(*file, 0, bytes.size()), 1 << 20);
  const auto empty = *File::Open(folder.Write("e", ""));
  EXPECT_EQ(*CachedBytes(*empty, 0, 0), 0);
  EXPECT_GT(FreeMemoryBytes(), 0);
}

}  // namespace
}  // namespace shardfeed
