#include "pipeline/stages/verdict.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using ::testing::HasSubstr;

// Verdicts on a run of ten seconds.
class VerdictTest : public ::testing::Test {
 protected:
  StageStats& AddStage(std::string name, double busy_seconds, double wait_in_seconds) {
    StageStats& stage = stages_.emplace_back();
    stage.name = std::move(name);
    stage.workers = 2;
    stage.busy_seconds = busy_seconds;
    stage.wait_in_seconds = wait_in_seconds;
    return stage;
  }
  void AddReader(double busy_seconds, double waited_for_seconds) {
    StageStats& reader = AddStage("read", busy_seconds, 0);
    reader.reads = true;
    reader.wait_out_seconds = waited_for_seconds;
  }
  Verdict Find(double wait_seconds, double seconds = 10) const {
    return FindLimit(seconds, wait_seconds, stages_);
  }

 private:
  std::vector<StageStats> stages_;
};

TEST_F(VerdictTest, AConsumerThatHardlyWaitsLimits) {
  AddReader(20, 9);
  AddStage("map", 19, 1);
  const Verdict verdict = Find(0.9);
  EXPECT_EQ(verdict.limit, "the consumer");
  EXPECT_EQ(verdict.text,
            "the consumer limits: it waits 9 % of the time; a faster chain would not help");
}

TEST_F(VerdictTest, TheLastStageWhoseThreadsAreBusyLimits) {
  AddReader(1, 9);
  AddStage("parse", 15, 1);
  AddStage("map", 12.5, 1);
  AddStage("pad", 2, 1);
  const Verdict verdict = Find(8);
  EXPECT_EQ(verdict.limit, "map");
  EXPECT_THAT(verdict.text, HasSubstr("map limits: its 2 threads are busy 62 % of the time"));
}

TEST_F(VerdictTest, OneThreadIsBusy) {
  AddStage("map", 7, 1).workers = 1;
  EXPECT_THAT(Find(8).text, HasSubstr("map limits: its thread is busy 70 % of the time"));
}

TEST_F(VerdictTest, AStageThatIsWaitedForWithoutBeingBusyLimits) {
  AddReader(1, 1);
  AddStage("map", 0, 1).wait_out_seconds = 9;
  AddStage("batch", 0, 4).wait_out_seconds = 9;
  const Verdict verdict = Find(9);
  EXPECT_EQ(verdict.limit, "map");
  EXPECT_THAT(verdict.text, HasSubstr("map limits: it is waited for 90 % of the time, although "));
}

TEST_F(VerdictTest, TheStartOfAShortRunIsNoStagesFault) {
  AddReader(0.001, 0.001);
  AddStage("map", 0, 0).wait_out_seconds = 0.09;
  EXPECT_EQ(Find(0.09, 0.1).limit, "nothing");
}

TEST_F(VerdictTest, ReadersThatInflateAllTheTimeLimit) {
  AddReader(18, 9);
  AddStage("map", 1, 9);
  EXPECT_EQ(Find(8).limit, "read");
}

TEST_F(VerdictTest, ReadingLimitsWhereItIsWaitedFor) {
  AddReader(1, 7);
  AddStage("map", 1, 8);
  const Verdict verdict = Find(8);
  EXPECT_EQ(verdict.limit, "reading");
  EXPECT_THAT(verdict.text, HasSubstr("reading limits: it is waited for 70 % of the time"));
}

TEST_F(VerdictTest, ReadingIsNotToBlameForAStepBehindIt) {
  AddReader(1, 0.2);
  AddStage("map", 1, 8);
  const Verdict verdict = Find(9);
  EXPECT_EQ(verdict.limit, "the input of map");
  EXPECT_THAT(verdict.text, HasSubstr("the input of map limits: it is waited for 80 %"));
}

TEST_F(VerdictTest, WithoutEvidenceNothingLimits) {
  AddReader(0.1, 0.3);
  AddStage("decode_image", 8, 0.4);
  const Verdict verdict = Find(4);
  EXPECT_EQ(verdict.limit, "nothing");
  EXPECT_EQ(verdict.text,
            "nothing limits for long: the consumer waits 40 % of the time, threads of stages are "
            "busy at most 40 %, and reading is waited for 3 %");
}

TEST_F(VerdictTest, ARunThatHasJustBegunHasAVerdict) {
  EXPECT_EQ(FindLimit(0, 0, {}).limit, "the consumer");
  EXPECT_EQ(FindLimit(1, 1, {}).limit, "nothing");
}

}  // namespace
}  // namespace shardfeed
