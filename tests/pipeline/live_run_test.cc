#include "pipeline/live_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pipeline/dataset.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LiveRunTest : public ::testing::Test {
 protected:
  LiveRunTest() { ::setenv("SHARDFEED_LIVE_DIR", folder().c_str(), 1); }
  ~LiveRunTest() override { ::unsetenv("SHARDFEED_LIVE_DIR"); }

  void SetUp() override {
    std::string of_thread;
    std::thread([&of_thread] { of_thread = StartOfProcess(); }).join();
    if (of_thread != StartOfProcess()) {
      GTEST_SKIP() << "/proc/self/stat tells when the thread started, as under qemu";
    }
  }

  std::string folder() const { return temporary_ / "live"; }

  // Field 22 of proc(5).
  static std::string StartOfProcess() {
    std::ifstream file("/proc/self/stat");
    std::string text;
    std::getline(file, text, ')');  // ends field 2
    for (int field = 3; field <= 22; ++field) file >> text;
    return text;
  }

  static std::unique_ptr<LivePublisher> Publish(std::string chain) {
    LiveRun run;
    run.chain = std::move(chain);
    run.rank = 3;
    run.world = 8;
    return LivePublisher::Start(
        run,
        [calls = 0](LiveRun* live) mutable {
          ++calls;
          live->epoch = 2;
          live->all.seconds = calls;
          live->all.rows = 100 * calls;
          live->all.wait_seconds = 0.5 * calls;
          live->all.stages = {{.name = "parse", .workers = 2, .busy_seconds = 1.8 * calls}};
        },
        /*record=*/{}, std::chrono::milliseconds(1));
  }
  // Waits until there are runs, and returns them.
  static std::vector<LiveRun> Await() {
    while (true) {
      absl::StatusOr<std::vector<LiveRun>> runs = ReadLiveRuns();
      EXPECT_OK(runs.status());
      if (!runs.ok() || !runs->empty()) return *runs;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder());
    std::ofstream(folder() + "/" + name) << text;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder())) {
      names.push_back(file.path().filename());
    }
    return names;
  }

 private:
  const testing::TestFolder temporary_;
};

TEST_F(LiveRunTest, ARunTellsWhatItDoesWhileItLasts) {
  std::unique_ptr<LivePublisher> live = Publish("read(\xff).parse()");
  ASSERT_NE(live, nullptr);
  const std::vector<LiveRun> runs = Await();
  ASSERT_EQ(runs.size(), 1);
  const LiveRun& run = runs[0];
  EXPECT_EQ(run.pid, ::getpid());
  EXPECT_GT(run.process_start, 0);
  EXPECT_THAT(run.command, HasSubstr("live_run_test"));
  EXPECT_EQ(run.chain, "read(\xef\xbf\xbd).parse()");
  EXPECT_EQ(run.rank, 3);
  EXPECT_EQ(run.world, 8);
  EXPECT_EQ(run.epoch, 2);
  EXPECT_EQ(run.recent.seconds, 1);
  EXPECT_EQ(run.recent.rows, 100);
  EXPECT_EQ(run.recent.wait_seconds, 0.5);
  EXPECT_EQ(run.recent.limit, "parse");
  ASSERT_EQ(run.recent.stages.size(), 1);
  EXPECT_EQ(run.recent.stages[0].workers, 2);
  EXPECT_EQ(run.all.rows % 100, 0);
  live = nullptr;
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(LiveRunTest, RunsAreInTheOrderOfTheirNumbers) {
  const std::unique_ptr<LivePublisher> first = Publish("first");
  const std::unique_ptr<LivePublisher> second = Publish("second");
  std::vector<LiveRun> runs;
  while ((runs = Await()).size() < 2) {
  }
  EXPECT_EQ(runs[0].chain, "first");
  EXPECT_EQ(runs[1].chain, "second");
  EXPECT_EQ(runs[1].number, runs[0].number + 1);
}

TEST_F(LiveRunTest, FilesOfProcessesThatHaveEndedAreRemoved) {
  LiveRun run;
  run.pid = static_cast<uint64_t>(::getpid());
  run.process_start = 1;  // an earlier process of this number
  run.number = 5;
  Write(std::to_string(run.pid) + "-5.json", LiveRunToJson(run).dump());
  Write("4194305-1.json.tmp", "{");  // no process has such a number
  EXPECT_THAT(ReadLiveRuns().value(), IsEmpty());
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(LiveRunTest, OtherFilesArePassedBy) {
  const std::string mine = std::to_string(::getpid()) + "-1.json";
  LiveRun run;
  run.pid = static_cast<uint64_t>(::getpid());
  run.number = 7;
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"version\":3}"),
        std::string("{\"version\":2,\"pid\":\"x\"}"), LiveRunToJson(run).dump()}) {
    Write(mine, text);
    EXPECT_THAT(ReadLiveRuns().value(), IsEmpty()) << text;
    EXPECT_THAT(Files(), ElementsAre(mine));
  }
}

TEST_F(LiveRunTest, FilesThatAreNoRunsStay) {
  const std::vector<std::string> names = {"2024999-report.csv", "4194303-thesis.txt",
                                          "4194305-1.json", "4194305-x.json.tmp"};
  for (const std::string& name : names) Write(name, "kept");
  ASSERT_EQ(::mkfifo((folder() + "/1-1.json").c_str(), 0600), 0);  // no reader waits for it
  EXPECT_THAT(ReadLiveRuns().value(), IsEmpty());
  EXPECT_EQ(Files().size(), names.size() + 1);
}

TEST_F(LiveRunTest, AFolderThatOthersCanWriteToIsNotUsed) {
  std::filesystem::create_directories(folder());
  ASSERT_EQ(::chmod(folder().c_str(), 0777), 0);
  std::unique_ptr<LivePublisher> live = Publish("chain");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(ReadLiveRuns().status().message(), HasSubstr("others can write to this folder"));
}

TEST_F(LiveRunTest, WithoutAFolderNothingIsTold) {
  ::setenv("SHARDFEED_LIVE_DIR", "", 1);
  EXPECT_EQ(Publish("chain"), nullptr);
  EXPECT_THAT(ReadLiveRuns().value(), IsEmpty());
}

TEST_F(LiveRunTest, AFolderThatIsNotThereHasNoRuns) {
  EXPECT_THAT(ReadLiveRuns().value(), IsEmpty());
  Write("file", "");
  ::setenv("SHARDFEED_LIVE_DIR", (folder() + "/file").c_str(), 1);
  EXPECT_THAT(ReadLiveRuns().status().message(), HasSubstr("cannot list"));
}

TEST_F(LiveRunTest, IteratorsTellTheirChainRankAndEpoch) {
  const Dataset ds = Dataset::Range(0, 1000, 1, "n").Shard(1, 2).Shard(1, 3).Batch(10);
  ASSERT_OK(ds.status());
  RunOptions options;
  options.epoch = 4;
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start(options);
  ASSERT_OK(it.status());
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  const std::vector<LiveRun> runs = Await();
  ASSERT_EQ(runs.size(), 1);
  EXPECT_EQ(runs[0].chain, ds.Text());
  EXPECT_EQ(runs[0].rank, 3);
  EXPECT_EQ(runs[0].world, 6);
  EXPECT_EQ(runs[0].epoch, 4);
  EXPECT_EQ(runs[0].all.rows, 10);
}

}  // namespace
}  // namespace shardfeed
