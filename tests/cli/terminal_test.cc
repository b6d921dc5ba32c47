#include "cli/terminal/terminal.h"

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(ColumnsOf, CountsColumnsAndNotBytes) {
  EXPECT_EQ(ColumnsOf(""), 0);
  EXPECT_EQ(ColumnsOf("train@64"), 8);
  EXPECT_EQ(ColumnsOf("größe"), 5);
  EXPECT_EQ(ColumnsOf("数据"), 4);
  EXPECT_EQ(ColumnsOf("かな"), 4);
  EXPECT_EQ(ColumnsOf("한국"), 4);
  EXPECT_EQ(ColumnsOf("🐈"), 2);
  EXPECT_EQ(ColumnsOf("e\u0301"), 1);    // a combining accent
  EXPECT_EQ(ColumnsOf("\xff\xe4"), 2);   // not UTF-8: a byte each
  EXPECT_EQ(ColumnsOf("a\xe6\x95"), 3);  // cut within a character
}

TEST(CutEnd, FitsAndKeepsTheBeginning) {
  EXPECT_EQ(CutEnd("training", 8), "training");
  EXPECT_EQ(CutEnd("training", 7), "trai...");
  EXPECT_EQ(CutEnd("数据集合", 7), "数据...");
  EXPECT_EQ(CutEnd("数据集合", 6), "数...");  // half a character does not fit
  EXPECT_EQ(CutEnd("training", 2), "..");
  EXPECT_EQ(CutEnd("training", 0), "");
}

TEST(CutBeginning, FitsAndKeepsTheEnd) {
  EXPECT_EQ(CutBeginning("out/train", 9), "out/train");
  EXPECT_EQ(CutBeginning("out/train", 8), "...train");
  EXPECT_EQ(CutBeginning("数据集合", 6), "...合");
  EXPECT_EQ(CutBeginning("xxe\u0301a\u0301b", 4), "...b");  // an accent goes with its letter
  for (size_t columns = 0; columns < 20; ++columns) {
    EXPECT_LE(ColumnsOf(CutBeginning("数a据b集c合d", columns)), columns);
    EXPECT_LE(ColumnsOf(CutEnd("数a据b集c合d", columns)), columns);
  }
}

}  // namespace
}  // namespace shardfeed
