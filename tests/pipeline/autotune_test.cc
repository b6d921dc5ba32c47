#include "pipeline/stages/autotune.h"

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

constexpr StageSample kIdle = {.busy = 0.1, .consumer_wait = 0, .stage_wait = 0, .input_wait = 0};

StageSample Waits(double busy, double input_wait = 0) {
  return {.busy = busy, .consumer_wait = 0.5, .stage_wait = 0.4, .input_wait = input_wait};
}

TEST(StageTunerTest, BusyThreadsGetHelpWhileTheConsumerWaits) {
  StageTuner tuner({"map", 1, 3}, 4, 100);
  EXPECT_EQ(tuner.Observe(Waits(1)),
            "1 -> 2 threads: the consumer waits 50 % of the time, and that one is busy");
  tuner.Observe(Waits(1.9));
  EXPECT_EQ(tuner.tuning().workers, 3);
  tuner.Observe(Waits(2.8));
  EXPECT_EQ(tuner.tuning().workers, 4);
  EXPECT_EQ(tuner.Observe(Waits(4)), "");
  EXPECT_EQ(tuner.tuning().read_ahead, 3);
}

TEST(StageTunerTest, ThreadsRestWhenTheConsumerDoesNotWait) {
  StageTuner tuner({"map", 4, 6}, 4, 100);
  EXPECT_EQ(tuner.Observe({.busy = 1.6, .consumer_wait = 0, .stage_wait = 0, .input_wait = 0}),
            "4 -> 3 threads: the consumer does not wait, and 1.6 of 4 are busy");
  // Two threads would be busy all the time.
  EXPECT_EQ(tuner.Observe({.busy = 1.6, .consumer_wait = 0, .stage_wait = 0, .input_wait = 0}), "");
  // Nor does a consumer that waits a little change anything.
  EXPECT_EQ(
      tuner.Observe({.busy = 0.1, .consumer_wait = 0.03, .stage_wait = 0.03, .input_wait = 0}), "");
  for (int i = 0; i < 10; ++i) tuner.Observe(kIdle);
  EXPECT_EQ(tuner.tuning().workers, 1);
}

TEST(StageTunerTest, WhatWasNotEnoughIsNotTriedAgainSoon) {
  StageTuner tuner({"map", 2, 4}, 2, 100);
  tuner.Observe(kIdle);
  EXPECT_EQ(tuner.tuning().workers, 1);
  tuner.Observe(Waits(1));
  EXPECT_EQ(tuner.tuning().workers, 2);
  EXPECT_EQ(tuner.Observe(kIdle), "");
  for (int i = 0; i < 2000 && tuner.tuning().workers == 2; ++i) tuner.Observe(kIdle);
  EXPECT_EQ(tuner.tuning().workers, 1);
}

TEST(StageTunerTest, ReadsFurtherAheadOfWorkThatComesInBursts) {
  StageTuner tuner({"map", 2, 4}, 2, 10);
  EXPECT_EQ(tuner.Observe(Waits(0.5)),
            "4 -> 8 batches ahead: the consumer waits 50 % of the time, though only 0.5 of 2 "
            "threads are busy");
  // Not if the input is late.
  EXPECT_EQ(tuner.Observe(Waits(0.5, 0.8)), "");
  tuner.Observe(Waits(0.5));
  EXPECT_EQ(tuner.tuning().read_ahead, 10);
  EXPECT_EQ(tuner.Observe(Waits(0.5)), "");
}

}  // namespace
}  // namespace shardfeed
