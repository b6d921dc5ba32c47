#include "shard/commit/file_replacement.h"

#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::ReadBytes;
using ::shardfeed::testing::TestFolder;
using ::testing::ElementsAre;

class FileReplacementTest : public ::testing::Test {
 protected:
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  std::unique_ptr<FileReplacement> BeginBeside() {
    auto replacement = FileReplacement::BeginBeside(folder_ / "x");
    EXPECT_OK(replacement);
    return *std::move(replacement);
  }

  TestFolder folder_;
};

TEST_F(FileReplacementTest, SeveralAtATimeDoNotWaitForEachOther) {
  auto first = BeginBeside();
  auto second = BeginBeside();
  ASSERT_OK(first->file().Append("first"));
  ASSERT_OK(second->file().Append("second"));
  EXPECT_THAT(Files(), ElementsAre("x.1.tmp", "x.tmp"));
  ASSERT_OK(second->Commit());
  EXPECT_EQ(ReadBytes(folder_ / "x"), "second");
  second = nullptr;
  EXPECT_THAT(Files(), ElementsAre("x", "x.tmp"));
  ASSERT_OK(first->Commit());
  first = nullptr;
  EXPECT_EQ(ReadBytes(folder_ / "x"), "first");
  EXPECT_THAT(Files(), ElementsAre("x"));
}

TEST_F(FileReplacementTest, WhatWasKilledIsTakenOverOrRemoved) {
  folder_.Write("x.tmp", "of a run that was killed");
  folder_.Write("x.1.tmp", "of one at the same time");
  folder_.Write("x.2.tmp", "of another");
  auto replacement = BeginBeside();
  EXPECT_THAT(Files(), ElementsAre("x.tmp"));
  EXPECT_EQ(ReadBytes(folder_ / "x.tmp"), "");
  replacement = nullptr;
  EXPECT_THAT(Files(), ElementsAre());
}

TEST_F(FileReplacementTest, WhatOthersWriteIsLeftAlone) {
  auto first = BeginBeside();
  auto second = BeginBeside();
  ASSERT_OK(second->file().Append("second"));
  first = nullptr;
  auto third = BeginBeside();
  EXPECT_THAT(Files(), ElementsAre("x.1.tmp", "x.tmp"));
  EXPECT_EQ(ReadBytes(folder_ / "x.1.tmp"), "second");
}

TEST_F(FileReplacementTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_FAILS(FileReplacement::BeginBeside(folder_ / "none/x").status(), kNotFound,
               "none/x: cannot create: No such file or directory; the folder ");
}

}  // namespace
}  // namespace shardfeed
