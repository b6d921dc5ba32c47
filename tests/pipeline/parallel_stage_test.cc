#include "pipeline/parallel_stage.h"

#include "gtest/gtest.h"
#include "pipeline/batching.h"
#include "pipeline/sources.h"
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

}  // namespace
}  // namespace shardfeed
