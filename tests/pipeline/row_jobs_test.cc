#include "pipeline/stages/row_jobs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardfeed {
namespace {

class RowJobsTest : public testing::Test {
 protected:
  RowJobsTest() {
    context_.threads = 2;
    context_.budget_bytes = 1000;
    counters_.threads = 2;
    counters_.workers = 2;
    counters_.read_ahead = 3;
    // Stretches of four rows, each of which makes ten bytes.
    for (int i = 0; i < 5; ++i) size_.Learn(4, false, 4 * kRowsNs / 4, 40);
  }

  // Adds a task of one job, after which the input is in the state `state`.
  void Add(size_t rows, uint64_t bytes, uint64_t state) {
    auto job = std::make_unique<RowJob>();
    job->input.spec = std::make_shared<const RowSpec>();
    job->input.rows = job->rows = rows;
    job->bytes = bytes;
    job->after = {state};
    job->at_place = true;
    std::vector<std::unique_ptr<RowJob>> task;
    task.push_back(std::move(job));
    jobs_.Add(std::move(task));
  }

  // Finishes a task as a thread of the stage does; its rows make `bytes`.
  void Finish(const RowTask& task, uint64_t bytes) {
    if (!jobs_.FinishStretch(task, std::make_unique<RangeMemory>(), bytes, absl::OkStatus()))
      return;
    task.job->made_bytes = task.job->bytes;
    jobs_.FinishJobs(task, 1);
  }

  std::unique_ptr<RowJob> TakeDone() {
    bool room = false;
    return jobs_.TakeDone(&room);
  }

  ParallelSteps steps_;
  RunContext context_;
  StageCounters counters_;
  StretchSize size_;
  RowJobs jobs_{steps_, context_, counters_, size_};
};

TEST_F(RowJobsTest, DeliversStretchesInOrder) {
  Add(10, 100, 7);
  const RowTask first = jobs_.TakeTask();
  const RowTask second = jobs_.TakeTask();
  const RowTask third = jobs_.TakeTask();
  EXPECT_FALSE(jobs_.MayTake());
  EXPECT_EQ(first.end - first.begin, 4);
  EXPECT_EQ(first.job->rows + second.job->rows + third.job->rows, 10);

  Finish(third, 10);
  Finish(second, 10);
  EXPECT_EQ(jobs_.FirstDone(), nullptr);
  Finish(first, 10);
  for (const RowTask& task : {first, second, third}) {
    ASSERT_EQ(jobs_.FirstDone(), task.job);
    // Only the last stretch ends where the input's state was taken.
    EXPECT_EQ(TakeDone()->at_place, task.job == third.job);
  }
  EXPECT_TRUE(jobs_.empty());
  EXPECT_EQ(context_.ahead_bytes, 0);
}

TEST_F(RowJobsTest, DeliversWhatIsFinishedIfOrderDoesNotMatter) {
  context_.deterministic = false;
  Add(4, 10, 1);
  Add(4, 10, 2);
  jobs_.TakeTask();
  Finish(jobs_.TakeTask(), 10);
  ASSERT_NE(jobs_.FirstDone(), nullptr);
  EXPECT_EQ(TakeDone()->after, StateWords{2});
  EXPECT_EQ(jobs_.FirstDone(), nullptr);
  EXPECT_EQ(jobs_.size(), 1);
}

TEST_F(RowJobsTest, BeginsNothingMoreBeyondTheBudgetButWhatTheConsumerWaitsFor) {
  Add(4, 990, 1);
  ASSERT_TRUE(jobs_.MayTake());
  const RowTask task = jobs_.TakeTask();  // reserves 40 bytes for what its rows make
  EXPECT_EQ(context_.ahead_bytes, 1030);
  EXPECT_FALSE(jobs_.MayAdd());
  Add(4, 10, 2);
  EXPECT_FALSE(jobs_.MayTake());
  // The unneeded reservation is returned.
  Finish(task, 0);
  EXPECT_EQ(context_.ahead_bytes, 1000);
  TakeDone();
  EXPECT_EQ(context_.ahead_bytes, 10);
  EXPECT_TRUE(jobs_.MayAdd());
  context_.ahead_bytes += 5000;  // held by another stage
  EXPECT_TRUE(jobs_.MayTake());
  context_.ahead_bytes -= 5000;
}

TEST_F(RowJobsTest, TakesNoMoreRowsOfAJobInWhichOneFailed) {
  // Rows with a common output: all stretches belong to the same job.
  auto job = std::make_unique<RowJob>();
  job->rows = 10;
  job->whole = true;
  steps_.rows = *RowProgram::Make(std::make_shared<const RowSpec>(), {});
  std::vector<std::unique_ptr<RowJob>> jobs;
  jobs.push_back(std::move(job));
  jobs_.Add(std::move(jobs));
  const RowTask first = jobs_.TakeTask();
  const RowTask second = jobs_.TakeTask();
  ASSERT_EQ(first.job, second.job);
  ASSERT_TRUE(jobs_.MayTake());

  const auto fail = [&](const RowTask& task, size_t row) {
    auto memory = std::make_unique<RangeMemory>();
    memory->range.failed_row = row;
    return jobs_.FinishStretch(task, std::move(memory), 0,
                               absl::DataLossError("row " + std::to_string(row)));
  };
  EXPECT_FALSE(fail(second, second.begin));
  EXPECT_FALSE(jobs_.MayTake());
  EXPECT_TRUE(fail(first, 0));
  // The first failed row is reported, regardless of which was noticed first.
  EXPECT_EQ(first.job->failed_row, 0);
  EXPECT_EQ(first.job->status.message(), "row 0");
}

TEST_F(RowJobsTest, DropsAllJobsWhenCleared) {
  Add(10, 100, 7);
  jobs_.TakeTask();
  jobs_.Clear();
  EXPECT_TRUE(jobs_.empty());
  EXPECT_FALSE(jobs_.MayTake());
  EXPECT_EQ(context_.ahead_bytes, 0);
}

TEST_F(RowJobsTest, KeepsMemoryOfDeliveredJobs) {
  EXPECT_EQ(jobs_.TakeMemory(), nullptr);
  Add(4, 10, 1);
  Finish(jobs_.TakeTask(), 10);
  TakeDone();
  EXPECT_NE(jobs_.TakeMemory(), nullptr);
  EXPECT_EQ(jobs_.TakeMemory(), nullptr);
}

}  // namespace
}  // namespace shardfeed
