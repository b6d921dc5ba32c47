#include "cli/terminal/progress.h"

#include "cli/terminal/terminal.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

const Progress kWriting = {.what = "writing",
                           .name = "out/train@64",
                           .done = 25'000,
                           .total = 100'000,
                           .taken_over = 0,
                           .bytes = false,
                           .unit = "records",
                           .limit = "reading"};

TEST(ProgressLine, SaysEverythingWhereThereIsRoom) {
  EXPECT_EQ(ProgressLine(kWriting, 10, 200),
            "writing out/train@64: 25,000 of 100,000 records (25 %), 2,500 records/s, 30.0 s left, "
            "reading limits");
}

TEST(ProgressLine, LeavesOutTheLeastImportant) {
  EXPECT_EQ(
      ProgressLine(kWriting, 10, 90),
      "writing: 25,000 of 100,000 records (25 %), 2,500 records/s, 30.0 s left, reading limits");
  EXPECT_EQ(ProgressLine(kWriting, 10, 79),
            "writing ...in@64: 25 % of 100,000 records, 2,500/s, 30.0 s left, reading limits");
  EXPECT_EQ(ProgressLine(kWriting, 10, 60),
            "writing: 25 % of 100,000 records, 2,500/s, 30.0 s left");
  EXPECT_EQ(ProgressLine(kWriting, 10, 30), "writing: 25 %, 30.0 s left");
  EXPECT_EQ(ProgressLine(kWriting, 10, 19), "writing: 25 %");
  EXPECT_EQ(ProgressLine(kWriting, 10, 9), "25 %");
  EXPECT_EQ(ProgressLine(kWriting, 10, 3), "...");
}

TEST(ProgressLine, NeverExceedsTheWidth) {
  Progress wide = kWriting;
  wide.name = "数据/训练集\n/ほげ@64";
  for (const uint64_t total : {uint64_t{0}, uint64_t{100'000}, UINT64_MAX}) {
    wide.total = total;
    for (const bool bytes : {false, true}) {
      wide.bytes = bytes;
      for (size_t columns = 0; columns <= 200; ++columns) {
        const std::string line = ProgressLine(wide, 10, columns);
        EXPECT_LE(ColumnsOf(line), columns) << line;
        EXPECT_EQ(line.find('\n'), line.npos);
      }
    }
  }
}

TEST(ProgressLine, WhatWasTakenOverIsDoneButNoSpeed) {
  Progress resumed = kWriting;
  resumed.taken_over = 20'000;
  EXPECT_EQ(ProgressLine(resumed, 10, 96),
            "writing: 25,000 of 100,000 records (25 %), 500 records/s, 2 min 30 s left, reading "
            "limits");
}

TEST(ProgressLine, WithoutATotal) {
  EXPECT_EQ(
      ProgressLine({.what = "scanning", .name = "", .done = 3 << 20, .bytes = true, .limit = ""}, 2,
                   80),
      "scanning: 3.0 MiB, 1.5 MiB/s");
  Progress beyond = kWriting;
  beyond.total = 100;  // such as compressed bytes
  beyond.limit = "nothing";
  EXPECT_EQ(ProgressLine(beyond, 10, 60), "writing out/train@64: 25,000 records, 2,500 records/s");
}

TEST(ProgressLine, AtItsBeginningAndEnd) {
  Progress progress = kWriting;
  progress.limit = "";
  progress.done = 0;
  EXPECT_EQ(ProgressLine(progress, 0, 80),
            "writing out/train@64: 0 of 100,000 records (0 %), 0 records/s");
  progress.done = progress.total;
  EXPECT_EQ(ProgressLine(progress, 10, 80),
            "writing out/train@64: 100,000 of 100,000 records (100 %), 10,000 records/s");
}

}  // namespace
}  // namespace shardfeed
