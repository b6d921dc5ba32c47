#include "pipeline/stages/parallel_stage.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "gtest/gtest.h"
#include "pipeline/stages/batching.h"
#include "pipeline/stages/flat_map.h"
#include "pipeline/stages/sources.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

TEST(ParallelStageTest, ThreadsMayBeSentToRestAndCalledBack) {
  const auto spec = std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}});
  const auto program = RowProgram::Make(spec, {MakeMapStep(
                                                  {{"twice", DType::kInt64, {}}}, {},
                                                  [](RowContext& row) {
                                                    row.Out<int64_t>(0)[0] =
                                                        2 * row.In<int64_t>(0)[0];
                                                    return absl::OkStatus();
                                                  },
                                                  0)});
  ASSERT_OK(program);
  auto context = std::make_shared<RunContext>();
  context->threads = 4;
  context->gate.SetLimit(4);
  const int key = 0;
  const std::unique_ptr<Stage> stage = MakeParallelStage(
      MakeBatchStage(MakeRangeStage(0, 20000, 1, spec, 0, 0), spec, 20, false, {}),
      {.name = "map", .rows = *program}, &key, context);
  const auto counters = context->AllCounters().at(0);
  EXPECT_TRUE(counters->tunable);
  for (int64_t n = 0; n < 1000; ++n) {
    counters->workers = static_cast<int>(n / 3 % 4 + 1);
    counters->read_ahead = n / 5 % 6 + 2;
    Batch batch;
    ASSERT_OK(stage->Next(&batch));
    ASSERT_EQ(batch.rows, 20);
    EXPECT_EQ(batch.Row<int64_t>(1, 3)[0], 2 * (20 * n + 3));
  }
  Batch batch;
  ASSERT_OK(stage->Next(&batch));
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(context->ahead_bytes, 0);
}

// Reports when two threads are in it at once.
class OneAtATime : public Stage {
 public:
  OneAtATime(std::unique_ptr<Stage> input, std::atomic<int>* overlaps)
      : input_(std::move(input)), overlaps_(*overlaps) {}

  absl::Status Next(Batch* out) override {
    if (++inside_ > 1) ++overlaps_;
    std::this_thread::yield();
    absl::Status status;
    {
      MutexLock lock(mutex_);
      status = input_->Next(out);
    }
    --inside_;
    return status;
  }
  void Save(StateWords* words) const override { input_->Save(words); }
  absl::Status Load(StateReader* words) override { return input_->Load(words); }

 private:
  const std::unique_ptr<Stage> input_;  // its Next is called under mutex_
  Mutex mutex_;
  std::atomic<int> inside_ = 0;
  std::atomic<int>& overlaps_;
};

TEST(ParallelStageTest, OneThreadPullsWhileTheNumberOfWorkersChanges) {
  const auto spec = std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}});
  auto context = std::make_shared<RunContext>();
  context->threads = 4;
  context->gate.SetLimit(4);
  std::atomic<int> overlaps = 0;
  constexpr int64_t kBatches = 30000;
  const std::unique_ptr<Stage> stage = MakeParallelStage(
      std::make_unique<OneAtATime>(
          MakeBatchStage(MakeRangeStage(0, kBatches, 1, spec, 0, 0), spec, 1, false, {}),
          &overlaps),
      {.name = "none", .one_to_one = true}, &overlaps, context);
  const auto counters = context->AllCounters().at(0);
  std::atomic<bool> over = false;
  // As the tuner does, without synchronization with the stage.
  std::thread tuner([&] {
    for (unsigned n = 0; !over; ++n) counters->workers = static_cast<int>(n % 4 + 1);
  });
  Batch batch;
  int64_t rows = 0;
  do {
    EXPECT_OK(stage->Next(&batch));
    rows += static_cast<int64_t>(batch.rows);
  } while (!batch.empty());
  over = true;
  tuner.join();
  EXPECT_EQ(rows, kBatches);
  EXPECT_EQ(overlaps, 0);
}

constexpr int kThreads = 4;

std::shared_ptr<const RowSpec> Values() {
  static const auto* spec = new std::shared_ptr<const RowSpec>(
      std::make_shared<const RowSpec>(RowSpec{{"value", DType::kInt64, {}}}));
  return *spec;
}

// The numbers from 0 on, as rows or in batches, passed through a function of the test.
class CutTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Called with each number; may wait as a slow function would.
  using Fn = std::function<absl::Status(int64_t)>;

  std::unique_ptr<Stage> Make(int64_t numbers, Fn fn, size_t bytes = 0) {
    context_ = std::make_shared<RunContext>();
    context_->threads = kThreads;
    context_->gate.SetLimit(kThreads);
    context_->budget_bytes = budget_bytes_;
    std::unique_ptr<Stage> input = MakeRangeStage(0, numbers, 1, Values(), 0, 0);
    ParallelSteps steps = {.name = GetParam()};
    if (GetParam() == "flat_map") {
      auto outputs = std::make_shared<const RowSpec>(
          RowSpec{{"value", DType::kInt64, {}}, {"made", DType::kUInt8, {}, true}});
      steps.batches = {
          MakeFlatMapFn(outputs, [fn, bytes](const Batch& in, size_t row, RowEmitter& out) {
            const int64_t value = in.Row<int64_t>(0, row)[0];
            out.Begin();
            out.Out<int64_t>(0)[0] = value;
            out.Extend<uint8_t>(1, bytes);
            return fn(value);
          })};
      steps.one_to_one = false;
    } else {
      steps.rows = *RowProgram::Make(Values(), {MakeMapStep(
                                                   {{"made", DType::kUInt8, {}, true}}, {},
                                                   [fn, bytes](RowContext& row) {
                                                     row.Extend<uint8_t>(0, bytes);
                                                     return fn(row.In<int64_t>(0)[0]);
                                                   },
                                                   0)});
    }
    if (batched()) input = MakeBatchStage(std::move(input), Values(), 100, false, {});
    return MakeParallelStage(std::move(input), std::move(steps), this, context_);
  }
  static bool batched() { return GetParam() == "batches"; }
  static void WaitFor(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::yield();
  }

  uint64_t budget_bytes_ = 64 << 20;
  std::shared_ptr<RunContext> context_;
};

TEST_P(CutTest, ThreadsShareTheFirstRows) {
  // All threads are in calls of their own at the same time, no matter what has been delivered.
  std::atomic<int> inside = 0;
  const auto stage = Make(100, [&](int64_t) {
    ++inside;
    WaitFor([&] { return inside >= kThreads; });
    return absl::OkStatus();
  });
  Batch batch;
  ASSERT_OK(stage->Next(&batch));
  EXPECT_EQ(batch.rows, batched() ? 100 : 1);
}

TEST_P(CutTest, TheFirstRowIsDeliveredBeforeTheNextIsDone) {
  if (batched()) GTEST_SKIP() << "a batch is delivered whole";
  std::atomic<bool> open = false;
  const auto stage = Make(5000, [&](int64_t value) {
    WaitFor([&] { return value == 0 || open; });
    return absl::OkStatus();
  });
  Batch batch;
  ASSERT_OK(stage->Next(&batch));
  EXPECT_EQ(batch.rows, 1);
  open = true;
  for (size_t rows = 1; rows < 5000; rows += batch.rows) {
    ASSERT_OK(stage->Next(&batch));
    ASSERT_EQ(batch.Row<int64_t>(0, 0)[0], rows);
  }
}

TEST_P(CutTest, NoFurtherCallBeginsOnceTheRunIsStopped) {
  // Cheap rows, so that many are taken at a time; then some expensive ones.
  for (bool cancelled : {true, false}) {
    std::atomic<int> calls = 0;
    auto stage = Make(100'000, [&](int64_t value) {
      if (value < 3000) return absl::OkStatus();
      ++calls;
      WaitFor([] { return WorkStop::Token().stop_requested(); });
      return absl::OkStatus();
    });
    // How far threads are ahead depends on the machine, so take what is ready until they get there.
    Batch batch;
    while (calls == 0) {
      const std::optional<bool> ready = stage->Await(std::chrono::milliseconds(1));
      ASSERT_TRUE(ready);
      if (*ready) ASSERT_OK(stage->Next(&batch));
    }
    if (cancelled) context_->stop.request_stop();
    stage = nullptr;
    EXPECT_LE(calls, kThreads);
    EXPECT_EQ(context_->ahead_bytes, 0);
  }
}

TEST_P(CutTest, RowsBeforeAnErrorAreDelivered) {
  for (int64_t bad : {0, 1, 700, 1024, 3999}) {
    const auto stage = Make(4000, [&](int64_t value) {
      return value >= bad ? absl::DataLossError("bad") : absl::OkStatus();
    });
    int64_t rows = 0;
    Batch batch;
    absl::Status status;
    while ((status = stage->Next(&batch)).ok() && !batch.empty()) {
      for (size_t r = 0; r < batch.rows; ++r) {
        ASSERT_EQ(batch.Row<int64_t>(0, r)[0], rows++);
      }
    }
    EXPECT_EQ(rows, batched() ? bad / 100 * 100 : bad);
    EXPECT_FAILS(status, kDataLoss, "element " + std::to_string(bad) + " of epoch 0: bad");
    EXPECT_FAILS(stage->Next(&batch), kDataLoss, "element");
  }
}

TEST_P(CutTest, TheBudgetHoldsForWhatFunctionsMake) {
  if (batched()) GTEST_SKIP() << "see RunTest.MemoryStaysWithinTheBudget";
  budget_bytes_ = 8 << 20;
  std::atomic<int64_t> calls = 0;
  std::atomic<int64_t> delivered = 0;
  std::atomic<int64_t> most = 0;
  const auto stage = Make(
      200,
      [&](int64_t) {
        const int64_t ahead = ++calls - delivered;
        for (int64_t seen = most; ahead > seen && !most.compare_exchange_weak(seen, ahead);) {
        }
        return absl::OkStatus();
      },
      1 << 20);
  Batch batch;
  for (int64_t n = 0; n < 200; n += static_cast<int64_t>(batch.rows)) {
    ASSERT_OK(stage->Next(&batch));
    delivered += static_cast<int64_t>(batch.rows);
    // Lets the stage make as much ahead as it may.
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  // Eight that fit, and those whose size was unknown when they were begun.
  EXPECT_LE(most, 8 + 2 * kThreads);
}

TEST_P(CutTest, StatesWithinABatchOfTheInputAreThoseOfElements) {
  const auto fn = [](int64_t) { return absl::OkStatus(); };
  ElementQueue queue(Make(4000, fn));
  ASSERT_OK(queue.Fill());
  const size_t elements = batched() ? 3 : 5;
  for (size_t n = 0; n < elements; ++n) {
    ASSERT_OK(queue.Fill());
    queue.Advance(1);
  }
  StateWords state;
  queue.Save(&state);
  // The range's state: batches of 1024 rows, and how many of these have passed; or the state of the
  // batch stage's queue.
  EXPECT_EQ(state, batched() ? (StateWords{0, 300, 0}) : (StateWords{5, 0}));
  ElementQueue again(Make(4000, fn));
  StateReader reader(state);
  ASSERT_OK(again.Load(&reader));
  ASSERT_OK(again.Fill());
  EXPECT_EQ(again.head().Row<int64_t>(0, again.at())[0], batched() ? 300 : 5);
}

INSTANTIATE_TEST_SUITE_P(Elements, CutTest, ::testing::Values("rows", "batches", "flat_map"),
                         [](const auto& info) { return info.param; });

TEST(ParallelStageTest, RowsThatStandInForOthersStayTogether) {
  // Rows that may be replaced by others of their batch stay together.
  class Replacing : public RowStep {
   public:
    std::string name() const override { return "replacing"; }
    bool replaces() const override { return true; }
    std::unique_ptr<StepMemory> MakeMemory() const override {
      class None : public StepMemory {
        const VariableColumn* variable(size_t) const override { return nullptr; }
        void Truncate(size_t) override {}
      };
      return std::make_unique<None>();
    }
    absl::Status Run(absl::Span<const int>, size_t, RowRange*, StepMemory*) const override {
      return absl::OkStatus();
    }
  };
  auto context = std::make_shared<RunContext>();
  context->threads = kThreads;
  context->gate.SetLimit(kThreads);
  const int key = 0;
  const auto stage = MakeParallelStage(
      MakeRangeStage(0, 2000, 1, Values(), 0, 0),
      {.name = "r", .rows = *RowProgram::Make(Values(), {std::make_shared<Replacing>()})}, &key,
      context);
  Batch batch;
  ASSERT_OK(stage->Next(&batch));
  EXPECT_EQ(batch.rows, 1024);
}

TEST(ParallelStageTest, AnErrorLeavesNoRowsInABatchAfterLoad) {
  std::atomic<bool> fails = true;
  const auto program = RowProgram::Make(Values(), {MakeMapStep(
                                                      {}, {},
                                                      [&](RowContext& row) {
                                                        return fails && row.In<int64_t>(0)[0] == 25
                                                                   ? absl::DataLossError("bad")
                                                                   : absl::OkStatus();
                                                      },
                                                      0)});
  ASSERT_OK(program);
  auto context = std::make_shared<RunContext>();
  context->gate.SetLimit(1);
  const int key = 0;
  const auto stage =
      MakeBatchStage(MakeParallelStage(MakeRangeStage(0, 50, 1, Values(), 0, 0),
                                       {.name = "map", .rows = *program}, &key, context),
                     Values(), 10, false, {});
  StateWords start;
  stage->Save(&start);
  Batch batch;
  ASSERT_OK(stage->Next(&batch));
  ASSERT_OK(stage->Next(&batch));
  EXPECT_FAILS(stage->Next(&batch), kDataLoss, "element 25 of epoch 0: bad");
  fails = false;
  StateReader reader(start);
  ASSERT_OK(stage->Load(&reader));
  for (int64_t n = 0; n < 50; n += 10) {
    ASSERT_OK(stage->Next(&batch));
    EXPECT_EQ(batch.Row<int64_t>(0, 0)[0], n);
  }
}

}  // namespace
}  // namespace shardfeed
