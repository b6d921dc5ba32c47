#include "net/remote_file.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <stop_token>
#include <thread>

#include "base/work_stop.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/buffer.h"
#include "net/guard_object.h"
#include "net/open.h"
#include "net/remote_engine.h"
#include "net/store.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {
namespace {

using ::testing::HasSubstr;

class RemoteFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("SHARDFEED_NET_SECONDS", "3", 1);
    server_.Put("/object", bytes_);
  }
  std::shared_ptr<File> Open() {
    absl::StatusOr<std::shared_ptr<File>> file = OpenFile(server_.url() + "/object");
    EXPECT_OK(file);
    server_.ForgetRequests();
    return *file;
  }
  std::string ReadAt(const File& file, uint64_t offset, size_t size) {
    std::string into(size, '\0');
    const absl::StatusOr<size_t> n = file.ReadAt(offset, absl::MakeSpan(into));
    EXPECT_OK(n);
    into.resize(n.value_or(0));
    return into;
  }

  FaultServer server_;
  const std::string bytes_ = RandomBytes(20'000'000, 7);
};

TEST_F(RemoteFileTest, SizeAndVersionComeWithOneRequest) {
  const absl::StatusOr<std::shared_ptr<File>> file = OpenFile(server_.url() + "/object");
  ASSERT_OK(file);
  EXPECT_EQ((*file)->size(), bytes_.size());
  EXPECT_EQ((*file)->fd(), -1);
  ASSERT_EQ(server_.requests().size(), 1);
  EXPECT_EQ(server_.requests()[0].method, "HEAD");
  EXPECT_FAILS(OpenFile(server_.url() + "/none").status(), kNotFound, "/none: no such object");
}

TEST_F(RemoteFileTest, AFileThatIsReadInOrderIsReadAhead) {
  const std::shared_ptr<File> file = Open();
  file->Advise(File::Access::kSequential);
  std::string read;
  while (read.size() < bytes_.size()) read += ReadAt(*file, read.size(), 100'000);
  EXPECT_TRUE(read == bytes_);
  EXPECT_EQ(server_.requests().size(), 3);  // each for 8 MiB
}

TEST_F(RemoteFileTest, ReadsHereAndThereTakeNoMoreThanTheyNeed) {
  const std::shared_ptr<File> file = Open();
  EXPECT_EQ(ReadAt(*file, 12'000'000, 100), bytes_.substr(12'000'000, 100));
  EXPECT_EQ(ReadAt(*file, 1'000'000, 500'000), bytes_.substr(1'000'000, 500'000));
  const auto requests = server_.requests();
  EXPECT_EQ(requests[0].headers.at("range"), "bytes=12000000-12065535");
  EXPECT_EQ(requests.back().headers.at("range"), "bytes=1000000-1499999");
  EXPECT_EQ(ReadAt(*file, bytes_.size() - 5, 100), bytes_.substr(bytes_.size() - 5));
  EXPECT_EQ(ReadAt(*file, bytes_.size(), 100), "");
  EXPECT_EQ(ReadAt(*file, bytes_.size() + 7, 100), "");
}

TEST_F(RemoteFileTest, AnyReadsOfManyThreadsAreRight) {
  const std::string bytes = bytes_.substr(0, 2'000'000);
  server_.Put("/object", bytes);
  const std::shared_ptr<File> file = Open();
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::minstd_rand random(seed);
      uint64_t offset = 0;
      for (int i = 0; i < 30; ++i) {
        const size_t size = 1 + random() % 200'000;
        if (random() % 3 == 0) offset = random() % bytes.size();
        ASSERT_TRUE(ReadAt(*file, offset, size) == bytes.substr(offset, size));
        offset = std::min<uint64_t>(offset + size, bytes.size() - 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RemoteFileTest, AFileThatIsReplacedIsAnError) {
  const std::shared_ptr<File> file = Open();
  EXPECT_EQ(ReadAt(*file, 0, 10), bytes_.substr(0, 10));
  server_.Put("/object", RandomBytes(20'000'001, 7));
  std::string into(100'000, '\0');
  EXPECT_FAILS(file->ReadAt(5'000'000, absl::MakeSpan(into)).status(), kAborted, "was replaced");
}

// A dataset: a shard that was written a second before its manifest.
class GuardedFileTest : public RemoteFileTest {
 protected:
  void SetUp() override {
    RemoteFileTest::SetUp();
    server_.Put("/shard", bytes_, written_ - 1);
    server_.Put("/manifest", "the manifest", written_);
    ObjectInfo info;
    ASSERT_OK(ReadObject(server_.url() + "/manifest", 100, &info));
    const auto guard = GuardObject::Make(info);
    ASSERT_OK(guard);
    guard_ = *guard;
    server_.ForgetRequests();
  }
  std::shared_ptr<File> OpenShard() {
    const auto file = RemoteFile::Open(
        {.path = server_.url() + "/shard", .size = bytes_.size(), .version = ""}, guard_);
    EXPECT_OK(file);
    return *file;
  }

  const std::time_t written_ = std::time(nullptr) - 100;
  std::shared_ptr<const GuardObject> guard_;
};

TEST_F(GuardedFileTest, AnOlderObjectTakesNoFurtherRequest) {
  EXPECT_EQ(ReadAt(*OpenShard(), 0, 10), bytes_.substr(0, 10));
  EXPECT_EQ(server_.requests().size(), 1);
}

TEST_F(GuardedFileTest, TheStoreIsAskedOnceAboutObjectsThatAreNoOlder) {
  server_.Put("/shard", bytes_, written_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ReadAt(*OpenShard(), 0, 10), bytes_.substr(0, 10));
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 4);
  EXPECT_EQ(requests[1].target, "/manifest");
  EXPECT_EQ(requests[1].headers.at("range"), "bytes=0-0");
}

TEST_F(GuardedFileTest, ThreadsThatReadAtTheSameTimeAreAllAnswered) {
  server_.Put("/shard", bytes_, written_ + 1);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 8; ++i) {
    threads.emplace_back(
        [&, i] { EXPECT_EQ(ReadAt(*OpenShard(), i * 1000, 10), bytes_.substr(i * 1000, 10)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(server_.requests().size(), 8 + 8);
}

TEST_F(GuardedFileTest, AnObjectOfAnotherDatasetIsAnError) {
  const std::shared_ptr<File> file = OpenShard();
  server_.Remove("/manifest");
  server_.Put("/shard", RandomBytes(bytes_.size(), 8), written_ + 50);
  std::string into(100, '\0');
  constexpr char kReplaced[] = "/manifest: the dataset was replaced while it was in use";
  EXPECT_FAILS(file->ReadAt(0, absl::MakeSpan(into)).status(), kAborted, kReplaced);
  server_.Put("/manifest", "the manifest of another dataset", written_ + 51);
  EXPECT_FAILS(OpenShard()->ReadAt(0, absl::MakeSpan(into)).status(), kAborted, kReplaced);
}

TEST_F(GuardedFileTest, WithoutTagsTimeTells) {
  server_.SetFaults([](const SeenRequest&) { return Fault{.kind = Fault::kNoTag}; });
  ObjectInfo info;
  ASSERT_OK(ReadObject(server_.url() + "/manifest", 100, &info));
  EXPECT_EQ(info.version, "");
  guard_ = *GuardObject::Make(info);
  server_.Put("/shard", bytes_, written_);
  EXPECT_EQ(ReadAt(*OpenShard(), 0, 10), bytes_.substr(0, 10));
  server_.Put("/manifest", "the Manifest", written_ + 51);
  server_.Put("/shard", bytes_, written_ + 1000);
  std::string into(100, '\0');
  EXPECT_FAILS(OpenShard()->ReadAt(0, absl::MakeSpan(into)).status(), kAborted, "was replaced");
}

TEST_F(GuardedFileTest, WithoutTimesTheStoreIsAskedForEachObject) {
  server_.Put("/shard", bytes_);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ReadAt(*OpenShard(), 0, 10), bytes_.substr(0, 10));
  EXPECT_EQ(server_.requests().size(), 4);
  server_.Put("/manifest", "another", written_ + 51);
  std::string into(100, '\0');
  EXPECT_FAILS(OpenShard()->ReadAt(0, absl::MakeSpan(into)).status(), kAborted, "was replaced");
}

TEST_F(GuardedFileTest, AFailedQuestionIsThatOfTheRead) {
  server_.Put("/shard", bytes_, written_ + 50);
  server_.SetFaults([](const SeenRequest& request) {
    const bool asked = request.target == "/manifest";
    return asked ? Fault{.kind = Fault::kStatus, .status = 403} : Fault();
  });
  std::string into(100, '\0');
  const std::shared_ptr<File> file = OpenShard();
  EXPECT_FAILS(file->ReadAt(0, absl::MakeSpan(into)).status(), kPermissionDenied, "/manifest");
  server_.SetFaults(nullptr);
  EXPECT_EQ(ReadAt(*file, 0, 10), bytes_.substr(0, 10));
}

// Nobody waits for the answer about the manifest, and those who ask later get theirs.
TEST_F(GuardedFileTest, AReadThatIsNotNeededDoesNotWaitForTheQuestion) {
  using Clock = std::chrono::steady_clock;
  setenv("SHARDFEED_NET_SECONDS", "60", 1);
  server_.Put("/shard", bytes_, written_ + 50);
  const auto read = [&](uint64_t size) {
    std::string into(size, '\0');
    return OpenShard()->ReadAt(1'000'000, absl::MakeSpan(into)).status();
  };
  const auto submit = [&](uint64_t size) {
    const auto engine = MakeRemoteEngine(2, nullptr);
    engine->Submit(std::vector<ReadRequest>{{OpenShard(), 0, size, 1}});
    std::vector<ReadResult> results;
    engine->Wait(1, &results);
    EXPECT_TRUE(results.empty());
    return absl::CancelledError("interrupted");
    // The engine is destroyed.
  };
  for (const auto& use : std::vector<std::function<absl::Status(uint64_t)>>{read, submit}) {
    // With more than was asked for, and directly.
    for (const uint64_t size : {100, 500'000}) {
      ObjectInfo info;
      ASSERT_OK(ReadObject(server_.url() + "/manifest", 100, &info));
      guard_ = *GuardObject::Make(info);  // one that has not asked yet
      std::stop_source stop;
      const auto answers = std::make_shared<std::atomic<bool>>(false);
      server_.SetFaults([stop, answers](const SeenRequest& request) mutable {
        if (request.target != "/manifest") return Fault();
        stop.request_stop();
        while (!*answers) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return Fault();
      });
      {
        const WorkStop wanted(stop.get_token());
        const auto began = Clock::now();
        EXPECT_FAILS(use(size), kCancelled, "interrupted");
        EXPECT_LT(Clock::now() - began, std::chrono::seconds(20));
      }
      *answers = true;
      EXPECT_EQ(ReadAt(*OpenShard(), 7, 10), bytes_.substr(7, 10));
    }
  }
}

TEST_F(RemoteFileTest, AnEmptyObject) {
  server_.Put("/object", "");
  const std::shared_ptr<File> file = Open();
  EXPECT_EQ(file->size(), 0);
  EXPECT_EQ(ReadAt(*file, 0, 10), "");
}

TEST_F(RemoteFileTest, AnErrorIsToldAndTheNextReadTriesAgain) {
  const std::shared_ptr<File> file = Open();
  file->Advise(File::Access::kSequential);
  server_.SetFaults(
      [](const SeenRequest&) { return Fault{.kind = Fault::kStatus, .status = 403}; });
  std::string into(100, '\0');
  EXPECT_FAILS(file->ReadAt(0, absl::MakeSpan(into)).status(), kPermissionDenied, "does not allow");
  server_.SetFaults(nullptr);
  EXPECT_EQ(ReadAt(*file, 0, 100), bytes_.substr(0, 100));
}

TEST_F(RemoteFileTest, AReadEndsOnceItIsNotNeeded) {
  const std::shared_ptr<File> file = Open();
  std::stop_source stop;
  server_.SetFaults([stop](const SeenRequest&) mutable {
    stop.request_stop();
    return Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(60)};
  });
  const WorkStop wanted(stop.get_token());
  std::string into(500'000, '\0');
  // With more than was asked for, and directly.
  for (const size_t size : {100, 500'000}) {
    EXPECT_FAILS(file->ReadAt(1'000'000, absl::MakeSpan(into).subspan(0, size)).status(),
                 kCancelled, "interrupted");
  }
}

class RemoteEngineTest : public RemoteFileTest {
 protected:
  std::unique_ptr<Engine> Make(int depth) { return MakeRemoteEngine(depth, nullptr); }
};

TEST_F(RemoteEngineTest, RequestsAreDoneInAnyOrder) {
  const std::shared_ptr<File> file = Open();
  const auto engine = Make(8);
  EXPECT_EQ(engine->depth(), 8);
  std::vector<ReadRequest> requests;
  for (uint64_t i = 0; i < 100; ++i) requests.push_back({file, i * 150'000, 50'000 + i, i});
  const std::shared_ptr<Buffer> shared = Buffer::Allocate(1000);
  requests.push_back({file, 17, 900, 100, shared, 50});
  requests.push_back({file, bytes_.size() - 10, 11, 101});  // ends past the end of the file
  requests.push_back({file, 12, 0, 102});
  engine->Submit(requests);
  EXPECT_EQ(engine->outstanding(), 103);
  std::set<uint64_t> seen;
  std::vector<ReadResult> results;
  while (engine->outstanding() > 0) {
    results.clear();
    engine->Wait(5, &results);
    for (const ReadResult& result : results) {
      EXPECT_TRUE(seen.insert(result.tag).second);
      const ReadRequest& request = requests[result.tag];
      if (result.tag == 101) {
        EXPECT_FAILS(result.status, kDataLoss, "ends at byte 19999990");
        continue;
      }
      ASSERT_OK(result.status);
      EXPECT_TRUE(result.data == std::string_view(bytes_).substr(request.offset, request.length));
    }
  }
  EXPECT_EQ(seen.size(), 103);
  EXPECT_EQ(std::string_view(shared->data() + 50, 900), std::string_view(bytes_).substr(17, 900));
  EXPECT_EQ(engine->stats().requests, 103);
  EXPECT_LE(engine->stats().max_depth, 8);
}

TEST_F(RemoteEngineTest, TheFirstLargeRequestsMayBeSpread) {
  const std::shared_ptr<File> file = Open();
  std::vector<ReadRequest> requests;
  for (uint64_t i = 0; i < 12; ++i) requests.push_back({file, i * 1'000'000, 600'000, i});
  const auto engine = MakeRemoteEngine(8, nullptr, {.spread_first = true});
  engine->Submit(requests);
  std::vector<ReadResult> results;
  while (engine->outstanding() > 0) engine->Wait(1, &results);
  ASSERT_EQ(results.size(), 12);
  for (const ReadResult& result : results) {
    ASSERT_OK(result.status);
    EXPECT_TRUE(result.data == std::string_view(bytes_).substr(result.tag * 1'000'000, 600'000));
  }
  // One that is not needed any more does not wait for what has not been sent.
  MakeRemoteEngine(8, nullptr, {.spread_first = true})->Submit(requests);
}

TEST_F(RemoteEngineTest, LocalFilesAreReadToo) {
  const TestFolder folder;
  const auto local = File::Open(folder.Write("local", "0123456789"));
  ASSERT_OK(local);
  const auto engine = Make(2);
  engine->Submit(std::vector<ReadRequest>{{*local, 3, 4, 1}});
  std::vector<ReadResult> results;
  engine->Wait(1, &results);
  ASSERT_EQ(results.size(), 1);
  ASSERT_OK(results[0].status);
  EXPECT_EQ(results[0].data, "3456");
}

TEST_F(RemoteEngineTest, WakeEndsAWait) {
  const std::shared_ptr<File> file = Open();
  server_.SetFaults([](const SeenRequest&) {
    return Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(30)};
  });
  const auto engine = Make(2);
  engine->Submit(
      std::vector<ReadRequest>{{file, 0, 1000, 1}, {file, 5000, 1000, 2}, {file, 0, 9, 3}});
  std::thread other([&] { engine->Wake(); });
  std::vector<ReadResult> results;
  engine->Wait(1, &results);
  EXPECT_TRUE(results.empty());
  other.join();
  // The engine is destroyed with requests in progress and waiting.
}

TEST_F(RemoteEngineTest, AWaitEndsOnceItIsNotNeeded) {
  const std::shared_ptr<File> file = Open();
  std::stop_source stop;
  server_.SetFaults([stop](const SeenRequest&) mutable {
    stop.request_stop();
    return Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(60)};
  });
  const auto engine = Make(2);
  engine->Submit(std::vector<ReadRequest>{{file, 0, 1000, 1}});
  const WorkStop wanted(stop.get_token());
  std::vector<ReadResult> results;
  engine->Wait(1, &results);
  EXPECT_TRUE(results.empty());
  EXPECT_EQ(engine->outstanding(), 1);
}

}  // namespace
}  // namespace shardfeed::testing
