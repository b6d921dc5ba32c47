#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::kThreads;
using ::shardfeed::testing::Odd;
using ::shardfeed::testing::Ragged;
using ::shardfeed::testing::Square;
using ::shardfeed::testing::Start;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RunTest, IteratorsMayBeLeftAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    auto it = Start(Square(Dataset::Range(0, 1000000)).Batch(100).Prefetch(3));
    Collect(*it, i % 5);
  }
}

TEST(RunTest, CancelEndsAWait) {
  auto it = Start(Dataset::Range(0, 100)
                      .Map({},
                           [](RowContext&) {
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                             return absl::OkStatus();
                           })
                      .Batch(100));
  std::thread canceller([&] { it->Cancel(); });
  Batch batch;
  EXPECT_FAILS(it->Next(&batch), kCancelled, "the run was cancelled");
  canceller.join();
}

TEST(RunTest, AwaitWaitsNoLongerThanItIsTold) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  std::atomic<bool> open = false;
  const auto slow = [&](RowContext& row) {
    while (!open) std::this_thread::yield();
    return row.In<int64_t>(0)[0] < 15;
  };
  // The last batch, which has no rows left, is not waited for.
  const Dataset rows = Dataset::Range(0, 20);
  for (bool deterministic : {true, false}) {
    for (const Dataset& ds :
         {rows.Filter(slow), rows.Batch(5).Unbatch().Filter(slow).Take(100).Skip(0)}) {
      open = false;
      const auto it = Start(ds, deterministic);
      EXPECT_EQ(it->Await(milliseconds(0)), false);
      EXPECT_EQ(it->Await(milliseconds(1)), false);
      open = true;
      Batch batch;
      for (int64_t n = 0; n < 15; ++n) {
        EXPECT_EQ(it->Await(hours(1)), true);
        ASSERT_OK(it->Next(&batch));
        if (deterministic) {
          EXPECT_EQ(batch.Row<int64_t>(0, 0)[0], n);
        }
      }
      EXPECT_EQ(it->Await(hours(1)), true);
      ASSERT_OK(it->Next(&batch));
      EXPECT_TRUE(batch.empty());
    }
  }
  // Other chains cannot tell.
  EXPECT_EQ(Start(rows)->Await(hours(1)), std::nullopt);
  EXPECT_EQ(Start(Square(rows).Skip(3))->Await(hours(1)), std::nullopt);
}

TEST(RunTest, CancelAndErrorsEndAnAwait) {
  std::atomic<bool> open = false;
  const Dataset ds = Dataset::Range(0, 5).Map({}, [&](RowContext&) {
    while (!open) std::this_thread::yield();
    return absl::DataLossError("bad");
  });
  auto it = Start(ds);
  std::thread canceller([&] { it->Cancel(); });
  EXPECT_EQ(it->Await(std::chrono::hours(1)), true);
  Batch batch;
  EXPECT_FAILS(it->Next(&batch), kCancelled, "the run was cancelled");
  canceller.join();
  open = true;
  it = Start(ds);
  EXPECT_EQ(it->Await(std::chrono::hours(1)), true);
  EXPECT_FAILS(it->Next(&batch), kDataLoss, "bad");
  EXPECT_EQ(it->Await(std::chrono::hours(1)), true);
}

TEST(RunTest, StatisticsAddUp) {
  auto it = Start(Square(Dataset::Range(0, 1000)).Batch(10));
  Collect(*it);
  const IteratorStats stats = it->stats();
  EXPECT_EQ(stats.elements, 100);
  EXPECT_EQ(stats.rows, 1000);
  ASSERT_EQ(stats.stages.size(), 1);
  EXPECT_EQ(stats.stages[0].name, "map+batch");
  EXPECT_EQ(stats.stages[0].batches, 100);
  EXPECT_EQ(stats.stages[0].rows, 1000);
  EXPECT_EQ(stats.stages[0].threads, kThreads);
  EXPECT_THAT(stats.verdict, HasSubstr(stats.limit));
}

TEST(RunTest, TuningCanBeFrozen) {
  const Dataset ds = Square(Square(Dataset::Range(0, 1000)).Batch(10).Unbatch()).Batch(4);
  const auto it = *ds.Start({.threads = 4, .tuning = {{"map+batch", 1, 3}, {"map+batch 2", 2, 7}}});
  Collect(*it);
  const IteratorStats stats = it->stats();
  ASSERT_EQ(stats.tuning.size(), 2);
  EXPECT_EQ(stats.tuning[0].stage, "map+batch");
  EXPECT_EQ(stats.tuning[0].workers, 1);
  EXPECT_EQ(stats.tuning[0].read_ahead, 3);
  EXPECT_EQ(stats.tuning[1].stage, "map+batch 2");
  EXPECT_EQ(stats.tuning[1].workers, 2);
  EXPECT_EQ(stats.tuning[1].read_ahead, 7);
  EXPECT_THAT(stats.decisions, ElementsAre());
}

TEST(RunTest, TheShareOfTheProcessorsIsKept) {
  // The limit applies to all stages together.
  auto now = std::make_shared<std::atomic<int>>(0);
  auto most = std::make_shared<std::atomic<int>>(0);
  const auto counted = [=](const Dataset& ds) {
    return ds.Map({}, [=](RowContext&) {
      const int at_once = ++*now;
      for (int seen = *most; at_once > seen && !most->compare_exchange_weak(seen, at_once);) {
      }
      std::this_thread::yield();
      --*now;
      return absl::OkStatus();
    });
  };
  const Dataset ds = counted(counted(Dataset::Range(0, 5000)).Batch(10).Unbatch()).Batch(7);
  const auto it = *ds.Start({.threads = 4, .cpu_share = 0.5});
  Collect(*it);
  EXPECT_EQ(it->stats().stages[0].threads, 2);
  EXPECT_LE(*most, 2);
  EXPECT_FAILS(ds.Start({.cpu_share = 0}).status(), kInvalidArgument, "cpu_share is 0");
  EXPECT_FAILS(ds.Start({.cpu_share = 1.5}).status(), kInvalidArgument, "must be above 0");
}

TEST(RunTest, AForkedChildGoesOnByItself) {
  SKIP_WHERE_THREADS_HINDER_FORK();
  const Dataset ds = Ragged(Odd(Square(Dataset::Range(0, 10000))))
                         .Shuffle(1, 50)
                         .BucketByLength("values", {1, 3}, {5, 9, 30})
                         .Prefetch(3);
  const std::vector<std::string> all = Collect(ds);
  auto it = Start(ds);
  auto unordered = Start(ds, /*deterministic=*/false);
  auto unused = Start(ds);
  for (size_t at : {0, 20}) {
    Collect(*it, at);
    Collect(*unordered, at);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool same = Collect(*it, 60) == std::vector(all.begin() + at, all.begin() + at + 60);
      const std::string state = *it->StateDict();
      it = nullptr;
      unused = nullptr;
      Batch batch;
      const bool refused = absl::IsFailedPrecondition(unordered->Next(&batch));
      unordered = nullptr;
      auto fresh = Start(ds);
      const bool loaded = fresh->LoadStateDict(state).ok() && Collect(*fresh, 1)[0] == all[at + 60];
      ::_exit((same ? 0 : 1) + (refused ? 0 : 2) + (loaded ? 0 : 4));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_EQ(Collect(*it), std::vector(all.begin() + 20, all.end()));
}

TEST(RunTest, MemoryStaysWithinTheBudget) {
  // Batches of 800 kB, for a consumer that takes only the first.
  const Dataset ds = Dataset::Range(0, 100000)
                         .Map({{"large", DType::kInt64, {1000}}},
                              [](RowContext& row) {
                                for (int64_t& v : row.Out<int64_t>(0)) v = 1;
                                return absl::OkStatus();
                              })
                         .Batch(100);
  auto it = *ds.Start({.threads = kThreads, .budget_bytes = 4 << 20});
  Collect(*it, 200);
  EXPECT_LE(it->stats().stages[0].peak_bytes, (4 << 20) + 900'000);
}

}  // namespace
}  // namespace shardfeed
