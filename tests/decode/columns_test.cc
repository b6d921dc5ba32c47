#include "decode/features/columns.h"

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;

void Add(VariableColumn* column, const std::vector<int32_t>& values) {
  char* to = column->Extend(values.size() * sizeof(int32_t) / column->element_bytes());
  if (!values.empty()) std::memcpy(to, values.data(), values.size() * sizeof(int32_t));
}

VariableColumn Rows(const std::vector<std::vector<int32_t>>& rows, size_t element_bytes = 4) {
  VariableColumn column(element_bytes, false);
  for (const auto& row : rows) {
    Add(&column, row);
    column.EndRow();
  }
  return column;
}

VariableColumn StepRows(const std::vector<std::vector<std::vector<int32_t>>>& rows) {
  VariableColumn column(4, true);
  for (const auto& row : rows) {
    for (const auto& step : row) {
      Add(&column, step);
      column.EndStep();
    }
    column.EndRow();
  }
  return column;
}

std::string_view Bytes(const int32_t& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// All results of the Fill functions, in memory of exactly the requested size.
struct Filled {
  VariableSize size;
  std::vector<int32_t> elements;
  std::vector<int64_t> row_splits;
  std::vector<int64_t> step_splits;
  std::vector<int32_t> padded;
  std::vector<int64_t> indices;
};

Filled FillAll(const std::vector<const VariableColumn*>& pieces, int32_t padding = -1) {
  Filled filled;
  filled.size = Measure(pieces);
  const VariableSize& size = filled.size;
  const bool steps = pieces[0]->has_steps();
  const size_t width = pieces[0]->element_bytes() / 4;
  filled.elements.resize(size.elements * width);
  FillElements(pieces, reinterpret_cast<char*>(filled.elements.data()));
  filled.row_splits.resize(size.rows + 1);
  FillRowSplits(pieces, filled.row_splits.data());
  if (steps) {
    filled.step_splits.resize(size.steps + 1);
    FillStepSplits(pieces, filled.step_splits.data());
  }
  filled.padded.resize(size.rows * size.longest_row * (steps ? size.longest_step : 1) * width);
  std::string element;
  for (size_t i = 0; i < width; ++i) element += Bytes(padding);
  FillPadded(pieces, size.longest_row, size.longest_step, element,
             reinterpret_cast<char*>(filled.padded.data()));
  filled.indices.resize(size.elements * (steps ? 3 : 2));
  FillIndices(pieces, filled.indices.data());
  return filled;
}

TEST(Columns, PiecesFollowEachOther) {
  const VariableColumn first = Rows({{1, 2}, {}});
  const VariableColumn second = Rows({});
  const VariableColumn third = Rows({{3}, {4, 5, 6}});
  const Filled filled = FillAll({&first, &second, &third});
  EXPECT_EQ(filled.size.rows, 4);
  EXPECT_EQ(filled.size.longest_row, 3);
  EXPECT_THAT(filled.elements, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(filled.row_splits, ElementsAre(0, 2, 2, 3, 6));
  EXPECT_THAT(filled.padded, ElementsAre(1, 2, -1, -1, -1, -1, 3, -1, -1, 4, 5, 6));
  EXPECT_THAT(filled.indices, ElementsAre(0, 0, 0, 1, 2, 0, 3, 0, 3, 1, 3, 2));
}

TEST(Columns, ElementsOfSeveralValues) {
  const VariableColumn column = Rows({{1, 2, 3, 4}, {5, 6}}, 8);
  const Filled filled = FillAll({&column}, 0);
  EXPECT_THAT(filled.row_splits, ElementsAre(0, 2, 3));
  EXPECT_THAT(filled.padded, ElementsAre(1, 2, 3, 4, 5, 6, 0, 0));
}

TEST(Columns, StepsHaveOneDimensionMore) {
  const VariableColumn first = StepRows({{{1}, {}, {2, 3}}, {}});
  const VariableColumn second = StepRows({{{}, {4}}});
  const Filled filled = FillAll({&first, &second});
  EXPECT_EQ(filled.size.steps, 5);
  EXPECT_EQ(filled.size.longest_row, 3);
  EXPECT_EQ(filled.size.longest_step, 2);
  EXPECT_THAT(filled.elements, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(filled.row_splits, ElementsAre(0, 3, 3, 5));
  EXPECT_THAT(filled.step_splits, ElementsAre(0, 1, 1, 3, 3, 4));
  EXPECT_THAT(filled.padded, ElementsAre(1, -1, -1, -1, 2, 3,     //
                                         -1, -1, -1, -1, -1, -1,  //
                                         -1, -1, 4, -1, -1, -1));
  EXPECT_THAT(filled.indices, ElementsAre(0, 0, 0, 0, 2, 0, 0, 2, 1, 2, 1, 0));
}

TEST(Columns, PaddedTo) {
  const VariableColumn column = Rows({{1}});
  std::vector<int32_t> padded(3);
  const VariableColumn* pieces[] = {&column};
  FillPadded(pieces, 3, 0, Bytes(9), reinterpret_cast<char*>(padded.data()));
  EXPECT_THAT(padded, ElementsAre(1, 9, 9));
}

TEST(Columns, NothingAtAll) {
  const VariableColumn column = Rows({});
  const Filled filled = FillAll({&column});
  EXPECT_EQ(filled.size.rows, 0);
  EXPECT_THAT(filled.row_splits, ElementsAre(0));
  const VariableColumn empty_rows = Rows({{}, {}});
  EXPECT_THAT(FillAll({&empty_rows}).row_splits, ElementsAre(0, 0, 0));
}

TEST(VariableColumn, TruncateDropsRowsAndWhatWasBegun) {
  VariableColumn column = Rows({{1, 2}, {3}});
  Add(&column, {4, 5});
  column.Truncate(2);
  EXPECT_EQ(column.num_elements(), 3);
  column.Truncate(1);
  EXPECT_EQ(column.num_elements(), 2);
  Add(&column, {6});
  column.EndRow();
  EXPECT_THAT(FillAll({&column}).elements, ElementsAre(1, 2, 6));

  VariableColumn steps = StepRows({{{1}, {2, 3}}, {{4}}});
  Add(&steps, {5});
  steps.EndStep();
  Add(&steps, {6});
  steps.Truncate(1);
  EXPECT_EQ(steps.num_steps(), 2);
  EXPECT_EQ(steps.num_elements(), 3);
  steps.Clear();
  EXPECT_EQ(steps.num_rows(), 0);
  EXPECT_EQ(steps.num_elements(), 0);
}

TEST(VariableColumn, GrowsAndKeepsItsMemory) {
  VariableColumn column(4, false);
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < 10'000; ++i) {
    Add(&column, {i});
    expected.push_back(i);
  }
  column.EndRow();
  EXPECT_EQ(FillAll({&column}).elements, expected);
  const char* memory = column.elements();
  column.Clear();
  column.Extend(10'000);
  EXPECT_EQ(column.elements(), memory);
}

TEST(CopyBytes, StringsEndToEnd) {
  const std::vector<std::string_view> strings = {"one", "", "three"};
  std::string bytes(TotalBytes(strings), '\0');
  std::vector<int64_t> offsets(strings.size() + 1);
  CopyBytes(strings, bytes.data(), offsets.data());
  EXPECT_EQ(bytes, "onethree");
  EXPECT_THAT(offsets, ElementsAre(0, 3, 3, 8));
  CopyBytes({}, nullptr, offsets.data());
  EXPECT_EQ(offsets[0], 0);
}

}  // namespace
}  // namespace shardfeed
