// One suite for all engines.

#include "io/engine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "io/engine_choice.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::RandomBytes;
using testing::TestFolder;

struct Way {
  const char* name;
  EngineKind kind;
  bool inline_reads;
  bool direct;
  bool slabs = false;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

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
               folder_ / "cut: ends at byte 10000, expected data up to byte 10001");
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

// ---- Registration with a ring

// Reads 300 parts of the file and says what was registered.
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
    // The limit does not apply to the superuser.
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

// A ring knows files by numbers; a later file at the same address is another one.
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
  // More files than there is room for, all of them open.
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

TEST(MmapEngine, NeighborsShareAMapping) {
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
  // The remaining results keep their memory.
  results[0] = ReadResult();
  EXPECT_EQ(results[1].data, std::string_view(bytes).substr(9 << 20, 7 << 20));
  EXPECT_EQ(results[2].data, std::string_view(bytes).substr(12 << 20));
}

}  // namespace
}  // namespace shardfeed
