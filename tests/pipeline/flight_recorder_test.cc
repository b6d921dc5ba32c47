#include "pipeline/flight_recorder.h"

#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pipeline/dataset.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FlightRecorderTest : public ::testing::Test {
 protected:
  std::string folder() const { return temporary_ / "runs/flight"; }

  std::vector<nlohmann::json> Records() const {
    std::vector<nlohmann::json> records;
    for (const auto& file : std::filesystem::directory_iterator(folder())) {
      EXPECT_EQ(file.path().extension(), ".json");
      records.push_back(nlohmann::json::parse(std::ifstream(file.path())));
    }
    return records;
  }
  std::unique_ptr<FlightRecorder> Create(double starved_seconds) const {
    absl::StatusOr<std::unique_ptr<FlightRecorder>> recorder =
        FlightRecorder::Create(folder(), starved_seconds);
    EXPECT_OK(recorder.status());
    return recorder.ok() ? *std::move(recorder) : nullptr;
  }
  // What a run tells in second `number`.
  static LiveRun Second(uint64_t number, double waiting_seconds) {
    LiveRun run;
    run.pid = 17;
    run.number = 2;
    run.chain = "read(\"x@1\").batch(8)";
    run.updated = 1'700'000'000 + number;
    run.waiting_seconds = waiting_seconds;
    run.recent.rows = number;
    return run;
  }

 private:
  const testing::TestFolder temporary_;
};

TEST_F(FlightRecorderTest, AWaitThatIsTooLongLeavesTheLastMinute) {
  const std::unique_ptr<FlightRecorder> recorder = Create(5);
  for (uint64_t second = 1; second <= 100; ++second) recorder->Add(Second(second, 0));
  for (int waits = 1; waits < 5; ++waits) recorder->Add(Second(100 + waits, waits));
  EXPECT_THAT(Records(), IsEmpty());
  recorder->Add(Second(105, 5));
  const std::vector<nlohmann::json> records = Records();
  ASSERT_EQ(records.size(), 1);
  EXPECT_TRUE(std::filesystem::exists(folder() + "/flight-20231114T221505Z-17-2.json"));
  EXPECT_EQ(records[0]["format"], "shardfeed flight 1");
  EXPECT_EQ(records[0]["chain"], "read(\"x@1\").batch(8)");
  EXPECT_EQ(records[0]["waiting_seconds"], 5);
  const nlohmann::json& seconds = records[0]["seconds"];
  ASSERT_EQ(seconds.size(), FlightRecorder::kSeconds);
  EXPECT_EQ(seconds.front()["recent"]["rows"], 46);
  EXPECT_EQ(seconds.back()["recent"]["rows"], 105);
  EXPECT_EQ(seconds.back()["waiting_seconds"], 5);
}

TEST_F(FlightRecorderTest, EachWaitLeavesOneFile) {
  const std::unique_ptr<FlightRecorder> recorder = Create(2);
  for (uint64_t second = 1; second <= 6; ++second) recorder->Add(Second(second, second));
  EXPECT_EQ(Records().size(), 1);
  recorder->Add(Second(7, 0));
  recorder->Add(Second(8, 2));
  EXPECT_EQ(Records().size(), 2);
}

TEST_F(FlightRecorderTest, ShortWaitsInARowLeaveAFileEach) {
  const std::unique_ptr<FlightRecorder> recorder = Create(0.2);
  recorder->Add(Second(1, 0.5));
  recorder->Add(Second(2, 0.6));  // another one: the first would be longer by now
  recorder->Add(Second(3, 1.6));  // still the second
  EXPECT_EQ(Records().size(), 2);
}

TEST_F(FlightRecorderTest, ARunThatStarvesAllTheTimeDoesNotFillTheDisk) {
  const std::unique_ptr<FlightRecorder> recorder = Create(1);
  for (uint64_t second = 0; second < 4 * FlightRecorder::kMostRecords; ++second) {
    recorder->Add(Second(second, second % 2));
  }
  EXPECT_EQ(Records().size(), FlightRecorder::kMostRecords);
}

TEST_F(FlightRecorderTest, AFileThatCannotBeWrittenIsTriedAgain) {
  const std::unique_ptr<FlightRecorder> recorder = Create(1);
  std::filesystem::remove(folder());
  recorder->Add(Second(1, 1));
  std::filesystem::create_directory(folder());
  recorder->Add(Second(2, 2));
  ASSERT_EQ(Records().size(), 1);
  EXPECT_EQ(Records()[0]["waiting_seconds"], 2);
}

TEST_F(FlightRecorderTest, WrongArguments) {
  for (const double seconds : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FAILS(FlightRecorder::Create(folder(), seconds).status(), kInvalidArgument,
                 "must be above 0");
  }
  EXPECT_FAILS(FlightRecorder::Create("s3://bucket/runs", 1).status(), kInvalidArgument,
               "s3://bucket/runs: a flight recorder writes to a folder, not to a store");
  EXPECT_THAT(FlightRecorder::Create("/proc/flight", 1).status().message(),
              HasSubstr("/proc/flight"));
}

TEST_F(FlightRecorderTest, ARunWhoseInputStallsIsRecordedAndCountsItsWait) {
  ::setenv("SHARDFEED_LIVE_DIR", "", 1);
  const absl::Cleanup again = [] { ::unsetenv("SHARDFEED_LIVE_DIR"); };
  // The input comes once the record is there.
  FilterFn wait = [this](RowContext&) {
    while (std::filesystem::is_empty(folder())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  };
  RunOptions options;
  options.flight_recorder = folder();
  options.starved_seconds = 0.5;
  absl::StatusOr<std::unique_ptr<Iterator>> it =
      Dataset::Range(0, 4, 1, "n").Filter(std::move(wait)).Start(options);
  ASSERT_OK(it.status());
  Batch batch;
  ASSERT_OK((*it)->Next(&batch));
  const std::vector<nlohmann::json> records = Records();
  ASSERT_FALSE(records.empty());
  EXPECT_GE(records[0]["waiting_seconds"], 0.5);
  EXPECT_GE(records[0]["all"]["wait_seconds"], 0.5);
  EXPECT_GE((*it)->stats().wait_seconds, 0.5);
}

}  // namespace
}  // namespace shardfeed
