#include "shard/declarations/sibling_classes.h"

#include <filesystem>

#include "shard/names/names.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::TestFolder;

class SiblingClassesTest : public ::testing::Test {
 protected:
  SiblingClassesTest() { std::filesystem::create_directories(folder_ / ".shardfeed"); }

  static Manifest Of(const std::string& stem, ClassNames classes,
                     const std::string& feature = std::string(kClassLabel)) {
    Manifest manifest;
    manifest.stem = stem;
    manifest.shards = {{ShardName(stem, 0, 1, ""), 0, 0, 0}};
    if (!classes.empty()) manifest.classes[feature] = std::move(classes);
    return manifest;
  }
  void Write(const Manifest& manifest) {
    folder_.Write(".shardfeed/" + manifest.stem + ".manifest.json", FormatManifest(manifest));
  }
  // The datasets whose classes contradict those of "val".
  std::vector<std::string> Found(ClassNames classes) {
    std::vector<std::string> found;
    for (const SiblingClasses& sibling :
         FindSiblingClasses(folder_.path(), {Of("val", std::move(classes))})) {
      found.push_back(sibling.dataset.substr(folder_.path().size() + 1) + ": " + sibling.what);
    }
    return found;
  }

  TestFolder folder_;
};

TEST_F(SiblingClassesTest, ContradictionsAreFound) {
  Write(Of("train", {{0, "cat"}, {1, "dog"}}));
  Write(Of("val", {{0, "dog"}}));  // what is being written does not contradict itself
  Write(Of("none", {}));
  Write(Of("other", {{0, "cat"}, {1, "dog"}}, "label"));
  Write(Of("unrelated", {{0, "red"}, {1, "blue"}}));
  folder_.Write(".shardfeed/damaged.manifest.json", "{");
  EXPECT_THAT(Found({{0, "dog"}}),
              ::testing::ElementsAre("train@1: class 0 is \"dog\" in " + (folder_ / "val@1") +
                                     " and \"cat\" in " + (folder_ / "train@1")));
  EXPECT_THAT(Found({{7, "dog"}}),
              ::testing::ElementsAre("train@1: \"dog\" is class 7 in " + (folder_ / "val@1") +
                                     " and 1 in " + (folder_ / "train@1")));
  EXPECT_THAT(Found({{1, "dog"}}), ::testing::IsEmpty());
  EXPECT_THAT(Found({{0, "cat"}, {1, "dog"}, {2, "cow"}}), ::testing::IsEmpty());
  EXPECT_THAT(Found({}), ::testing::IsEmpty());
}

}  // namespace
}  // namespace shardfeed
