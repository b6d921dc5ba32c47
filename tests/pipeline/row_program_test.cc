#include "pipeline/rows/row_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<const RowSpec> Numbers() {
  return std::make_shared<const RowSpec>(RowSpec{{"n", DType::kInt64, {}}});
}

// Rows 0, 1, 2 ...
Batch Counted(size_t rows) {
  Batch batch;
  batch.rows = rows;
  batch.spec = Numbers();
  AllocateFixedColumns(&batch);
  for (size_t r = 0; r < rows; ++r) {
    reinterpret_cast<int64_t*>(batch.columns[0].data)[r] = static_cast<int64_t>(r);
  }
  return batch;
}

// Adds a ragged column of `n` times n, and fails at row `bad`.
std::shared_ptr<const RowStep> Repeated(std::string name, int64_t bad) {
  return MakeMapStep(
      {{name, DType::kInt64, {}, true}}, {},
      [bad](RowContext& row) -> absl::Status {
        const int64_t n = row.In<int64_t>(0)[0];
        for (int64_t& v : row.Extend<int64_t>(0, n)) v = n;
        if (n == bad) return absl::DataLossError("bad");
        return absl::OkStatus();
      },
      0, name);
}

class RowProgramTest : public ::testing::Test {
 protected:
  void Make(std::vector<std::shared_ptr<const RowStep>> steps) {
    auto program = RowProgram::Make(Numbers(), std::move(steps));
    ASSERT_OK(program);
    program_ = *std::move(program);
  }
  // Runs all rows of `input` as one range.
  absl::Status Run(const Batch& input) {
    fixed_ = program_->AllocateFixed(input, {});
    memory_.clear();
    memory_.push_back(program_->MakeMemory());
    return program_->Run(input, fixed_, 0, input.rows, memory_[0].get());
  }
  Batch Finish(Batch input) {
    uint64_t num_invalid = 0;
    return program_->Finish(std::move(input), std::move(fixed_), memory_, {}, &num_invalid);
  }
  const RowRange& range() const { return memory_[0]->range; }

  std::shared_ptr<const RowProgram> program_;
  Batch fixed_;
  std::vector<std::unique_ptr<RangeMemory>> memory_;
};

TEST_F(RowProgramTest, RowsBeforeOneThatFailsAreWhole) {
  // Whichever steps fail, the first failed row counts.
  for (const auto& [first, second, bad] :
       {std::tuple{4, -1, 4}, {-1, 4, 4}, {5, 3, 3}, {2, 5, 2}}) {
    Make({Repeated("a", first), Repeated("b", second), Repeated("c", -1)});
    const Batch input = Counted(6);
    EXPECT_FAILS(Run(input), kDataLoss, "bad");
    EXPECT_EQ(range().failed_row, bad);
    EXPECT_EQ(range().end, bad);
    const Batch out = Finish(input.Slice(0, bad));
    ASSERT_EQ(out.rows, bad);
    for (size_t column = 1; column < 4; ++column) {
      for (int64_t r = 0; r < bad; ++r) {
        EXPECT_THAT(out.Row<int64_t>(column, r), ::testing::SizeIs(r));
        EXPECT_THAT(out.Row<int64_t>(column, r), ::testing::Each(r));
      }
    }
  }
}

TEST_F(RowProgramTest, NoRowIsLeftOfARangeWhoseFirstFails) {
  Make({Repeated("a", 0), Repeated("b", -1)});
  EXPECT_FAILS(Run(Counted(3)), kDataLoss, "bad");
  EXPECT_EQ(range().end, 0);
  EXPECT_EQ(program_->VariableBytes(*memory_[0]), 0);
}

TEST_F(RowProgramTest, StepsGoOnBehindRowsThatAreCaught) {
  const auto positive = MakeFilterStep(
      [](RowContext& row) {
        if (row.In<int64_t>(0)[0] == 3) throw std::runtime_error("thrown");
        return row.In<int64_t>(0)[0] > 0;
      },
      0);
  Make({Repeated("a", 4), positive, Repeated("b", 1), MakeCatchStep("error", {})});
  for (int i = 0; i < 2; ++i) {  // the memory is reused
    const Batch input = Counted(6);
    ASSERT_OK(Run(input));
    const Batch out = Finish(input);
    ASSERT_EQ(out.rows, 5);
    EXPECT_THAT(out.Values<int64_t>(0), ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(out.Values<std::string_view>(3),
                ElementsAre("bad", "", "filter: thrown", "bad", ""));
    for (const auto& [row, n] : {std::pair(1, 2), {4, 5}}) {
      for (const size_t column : {1, 2}) {
        EXPECT_THAT(out.Row<int64_t>(column, row), ::testing::SizeIs(n));
        EXPECT_THAT(out.Row<int64_t>(column, row), ::testing::Each(n));
      }
    }
  }
  // An error that is not caught ends the range.
  Make({Repeated("a", 4), Repeated("b", 2),
        MakeCatchStep("error", [](const absl::Status& status) -> std::optional<std::string> {
          static int errors = 0;
          if (errors++ > 0) return std::nullopt;
          return std::string(status.message()) + "!";
        })});
  const Batch input = Counted(6);
  EXPECT_FAILS(Run(input), kDataLoss, "bad");
  EXPECT_EQ(range().failed_row, 2);
  const Batch out = Finish(input.Slice(0, 2));
  EXPECT_THAT(out.Values<std::string_view>(3), ElementsAre("", ""));
  // An error that belongs to no row.
  class Failing : public RowStep {
   public:
    std::string name() const override { return "failing"; }
    std::unique_ptr<StepMemory> MakeMemory() const override {
      return MakeFilterStep(nullptr, 0)->MakeMemory();
    }
    absl::Status Run(absl::Span<const int>, size_t, RowRange*, StepMemory*) const override {
      return absl::DataLossError("always");
    }
  };
  Make({std::make_shared<Failing>(), MakeCatchStep("error", {})});
  EXPECT_FAILS(Run(Counted(3)), kDataLoss, "always");
}

TEST_F(RowProgramTest, NoStepSeesRowsThatAreStillToBeReplaced) {
  class Replacing : public RowStep {
   public:
    std::string name() const override { return "replacing"; }
    bool replaces() const override { return true; }
    std::unique_ptr<StepMemory> MakeMemory() const override {
      return MakeFilterStep(nullptr, 0)->MakeMemory();
    }
    absl::Status Run(absl::Span<const int>, size_t, RowRange*, StepMemory*) const override {
      return absl::OkStatus();
    }
  };
  const auto replacing = std::make_shared<Replacing>();
  EXPECT_FAILS(RowProgram::Make(Numbers(), {replacing, Repeated("a", -1)}).status(),
               kInvalidArgument, "a: the rows before it are still to be replaced");
  EXPECT_OK(
      RowProgram::Make(Numbers(), {Repeated("a", -1), replacing, MakeCatchStep("error", {})}));
}

TEST_F(RowProgramTest, WhatStepsMakeIsCounted) {
  Make({Repeated("a", -1)});
  ASSERT_OK(Run(Counted(4)));
  // Six numbers, and the ends of the rows.
  EXPECT_EQ(program_->VariableBytes(*memory_[0]), (6 + 4) * sizeof(int64_t));
  Make({MakeMapStep(
      {{"text", DType::kBytes, {}}}, {},
      [](RowContext& row) {
        row.Out<std::string_view>(0)[0] = row.Keep(std::string(100, 'x'));
        return absl::OkStatus();
      },
      0)});
  ASSERT_OK(Run(Counted(4)));
  EXPECT_EQ(program_->VariableBytes(*memory_[0]), 400);
}

TEST_F(RowProgramTest, ElementsWithoutRoomAreNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where so much is asked for";
#endif
  constexpr size_t kElements = size_t{1} << 60;
  Make({MakeMapStep(
      {{"tokens", DType::kInt64, {}, true}}, {},
      [](RowContext& row) {
        row.Extend<int64_t>(0, row.In<int64_t>(0)[0] == 2 ? kElements : 1)[0] = 7;
        return absl::OkStatus();
      },
      0, "tokenize")});
  const Batch input = Counted(4);
  EXPECT_FAILS(
      Run(input), kResourceExhausted,
      "tokenize: column 'tokens': 1152921504606846976 elements, 9223372036854775808 bytes, "
      "do not fit into memory");
  EXPECT_EQ(range().failed_row, 2);
  const Batch out = Finish(input.Slice(0, 2));
  EXPECT_THAT(out.Row<int64_t>(1, 1), ElementsAre(7));
  // The memory is reused for other rows.
  EXPECT_OK(program_->Run(input, program_->AllocateFixed(input, {}), 0, 2, memory_[0].get()));
}

TEST_F(RowProgramTest, FixedColumnsWithoutRoomAreNamed) {
  const auto make = [](int64_t size) {
    return MakeMapStep(
        {{"small", DType::kInt64, {}}, {"image", DType::kUInt8, {size, size, 3}}}, {},
        [](RowContext&) { return absl::OkStatus(); }, 0, "decode_image");
  };
  Make({make(int64_t{1} << 31)});
  try {
    program_->AllocateFixed(Counted(4), {});
    FAIL() << "there is no such memory";
  } catch (const NoRoomError& error) {
    EXPECT_STREQ(error.what(),
                 "decode_image: column 'image': rows of 13835058055282163712 bytes, 4 in all, do "
                 "not fit into memory; make the rows or the batch smaller");
  }
  const HostAllocator none = [](size_t) -> std::shared_ptr<char> { throw std::bad_alloc(); };
  Make({make(100)});
  try {
    program_->AllocateFixed(Counted(1), none);
    FAIL() << "there is no such memory";
  } catch (const NoRoomError& error) {
    EXPECT_STREQ(error.what(),
                 "decode_image: column 'image': rows of 30000 bytes, 1 in all, do not fit into "
                 "memory; make the rows or the batch smaller");
  }
}

}  // namespace
}  // namespace shardfeed
