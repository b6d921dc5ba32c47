#include "convert/items/split_names.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(SplitNames, AreCountedInTheOrderOfTheirFirstRecords) {
  SplitNames names("fold");
  for (const char* name : {"val", "val", "train", "val", "größe", "train"}) {
    EXPECT_TRUE(names.Add(name).ok());
  }
  ASSERT_EQ(names.splits().size(), 3);
  EXPECT_EQ(names.splits()[0].name, "val");
  EXPECT_EQ(names.splits()[0].records, 3);
  EXPECT_EQ(names.splits()[1].records, 2);
  EXPECT_EQ(names.Find("größe"), 2);
  EXPECT_EQ(names.Find("test"), std::nullopt);
}

TEST(SplitNames, ValuesThatNameNoDatasetAreRefused) {
  SplitNames names("fold");
  EXPECT_EQ(Message(names.Add("")), "no value in \"fold\", which names the split");
  for (const char* name : {"a/b", "..", " train", "a.b", "a@2"}) {
    EXPECT_THAT(Message(names.Add(name)),
                HasSubstr("in \"fold\" cannot name a split: the name of a dataset may contain only "
                          "letters, digits, _ and - there"));
  }
  EXPECT_TRUE(names.splits().empty());
}

TEST(SplitNames, OfARealColumnAreFew) {
  SplitNames names("id");
  for (size_t i = 0; i < kMaxSplits; ++i) EXPECT_TRUE(names.Add(std::to_string(i)).ok());
  EXPECT_THAT(Message(names.Add("x")),
              HasSubstr("one split more than the 255 that can be written"));
  EXPECT_TRUE(names.Add("7").ok());
}

}  // namespace
}  // namespace shardfeed
