#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/dataset.h"
#include "tests/pipeline/dataset_chains.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Collect;
using ::shardfeed::testing::FirstError;
using ::shardfeed::testing::Start;
using ::testing::ElementsAre;

TEST(DatasetTest, GeneratorsMayWaitForTheConsumer) {
  const auto spec = std::make_shared<const RowSpec>(RowSpec{{"n", DType::kInt64, {}}});
  auto delivered = std::make_shared<std::atomic<int64_t>>(0);
  const auto answering = [spec, delivered]() -> Generator {
    return [spec, delivered, n = int64_t{0}]() mutable -> absl::StatusOr<Batch> {
      Batch rows;
      if (n == 300) return rows;
      while (*delivered < n) std::this_thread::yield();
      rows.rows = 1;
      rows.spec = spec;
      AllocateFixedColumns(&rows);
      *reinterpret_cast<int64_t*>(rows.columns[0].data) = n++;
      return rows;
    };
  };
  const auto it = Dataset::FromGenerator(answering, *spec)
                      .Map({}, [](RowContext&) { return absl::OkStatus(); })
                      .Batch(1)
                      .Start({.threads = 2});
  ASSERT_OK(it);
  Batch batch;
  for (int64_t n = 0; n < 300; ++n) {
    ASSERT_OK((*it)->Next(&batch));
    ASSERT_EQ(batch.Row<int64_t>(0, 0)[0], n);
    ++*delivered;
  }
  ASSERT_OK((*it)->Next(&batch));
  EXPECT_TRUE(batch.empty());
}

TEST(DatasetTest, GeneratorsAreDeclared) {
  const RowSpec spec = {{"n", DType::kInt64, {}}};
  const auto counting = [spec](int64_t batches) {
    return [spec, batches]() -> Generator {
      return [spec, batches, i = int64_t{0}]() mutable -> absl::StatusOr<Batch> {
        Batch batch;
        if (i == batches) return batch;
        batch.spec = std::make_shared<const RowSpec>(spec);
        batch.rows = 2;
        AllocateFixedColumns(&batch);
        auto* values = reinterpret_cast<int64_t*>(batch.columns[0].data);
        values[0] = 2 * i;
        values[1] = 2 * i + 1;
        ++i;
        return batch;
      };
    };
  };
  EXPECT_THAT(Collect(Dataset::FromGenerator(counting(3), spec).Batch(4)),
              ElementsAre(R"({"n":[0,1,2,3]})", R"({"n":[4,5]})"));
  EXPECT_FAILS(FirstError(Dataset::FromGenerator(counting(3), {{"m", DType::kInt64, {}}})),
               kInvalidArgument, "it returned n: int64, but was declared to return m: int64");
  EXPECT_FAILS(FirstError(Dataset::FromGenerator(
                   []() -> Generator {
                     return []() -> absl::StatusOr<Batch> { throw std::runtime_error("no more"); };
                   },
                   spec)),
               kInternal, "generator: no more");
}

TEST(DatasetTest, GeneratorsThatDoNotReturnHoldUpNothing) {
  struct Gate {
    std::atomic<bool> open = false;
    std::atomic<int> calls = 0;
  };
  const RowSpec spec = {{"n", DType::kInt64, {}}};
  for (const bool direct : {true, false}) {
    auto gate = std::make_shared<Gate>();
    const auto make = [spec, gate]() -> Generator {
      return [spec, gate]() -> absl::StatusOr<Batch> {
        if (++gate->calls == 3) {
          while (!gate->open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        Batch batch;
        batch.spec = std::make_shared<const RowSpec>(spec);
        batch.rows = 1;
        AllocateFixedColumns(&batch);
        *reinterpret_cast<int64_t*>(batch.columns[0].data) = gate->calls;
        return batch;
      };
    };
    Dataset ds = Dataset::FromGenerator(make, spec);
    if (!direct) ds = ds.Map({}, [](RowContext&) { return absl::OkStatus(); });
    auto it = Start(ds);
    // Rows that are made are delivered while the third call does not return.
    EXPECT_THAT(Collect(*it, 2), ElementsAre(R"({"n":1})", R"({"n":2})"));
    std::thread canceller([&] {
      while (gate->calls < 3) std::this_thread::yield();
      it->Cancel();
    });
    Batch batch;
    EXPECT_FAILS(it->Next(&batch), kCancelled, "the run was cancelled");
    canceller.join();
    it = nullptr;
    EXPECT_EQ(gate->calls, 3);
    // The abandoned thread drops the call's result, and makes no further call.
    gate->open = true;
  }
}

TEST(RangeTest, ValuesMayLieAsFarApartAsInt64Allows) {
  EXPECT_THAT(Collect(Dataset::Range(INT64_MIN, INT64_MAX, INT64_MAX)),
              ElementsAre(R"({"value":-9223372036854775808})", R"({"value":-1})",
                          R"({"value":9223372036854775806})"));
  EXPECT_THAT(Collect(Dataset::Range(INT64_MAX, INT64_MIN, INT64_MIN)),
              ElementsAre(R"({"value":9223372036854775807})", R"({"value":-1})"));
}

}  // namespace
}  // namespace shardfeed
