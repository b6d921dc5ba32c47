#include "convert/features/class_map.h"

#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

class ClassMapTest : public SourceTest {
 protected:
  absl::StatusOr<ClassMap> Read(std::string_view content) {
    return ClassMap::Read(Write("classes", content));
  }
  void ExpectDataLoss(std::string_view content, const std::string& message) {
    ExpectError(Read(content).status(), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(ClassMapTest, LinesCountFromZero) {
  const auto map = Read("cat\r\nbig dog\nö\n\n\n");
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->size(), 3);
  EXPECT_EQ(map->NumberOf("cat"), 0);
  EXPECT_EQ(map->NumberOf("big dog"), 1);
  EXPECT_EQ(map->NameOf(2), "ö");
  EXPECT_EQ(map->NumberOf("mouse"), std::nullopt);
  EXPECT_EQ(map->NameOf(3), std::nullopt);
}

TEST_F(ClassMapTest, JsonGivesNumbers) {
  const auto map = Read(" {\"cat\": 7, \"dog\": 0}\n");
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->NumberOf("cat"), 7);
  EXPECT_EQ(map->NameOf(0), "dog");
}

TEST_F(ClassMapTest, DefectsAreTold) {
  ExpectDataLoss("", "classes: the file has no classes");
  ExpectDataLoss("cat\n\ndog\n", "classes:2: a blank line between names");
  ExpectDataLoss("cat\ndog\ncat\n", "classes:3: the class \"cat\" appears twice");
  ExpectDataLoss("cat\n\xff\n", "classes:2: not UTF-8");
  ExpectDataLoss("{\"cat\": 1, \"dog\": 1}", "classes: \"cat\" and \"dog\" have the same number 1");
  ExpectDataLoss("{\"cat\": -1}", "the number of \"cat\" must be an integer of at least 0, got -1");
  ExpectDataLoss("{\"cat\": \"0\"}",
                 "the number of \"cat\" must be an integer of at least 0, got \"0\"");
  ExpectDataLoss("{\"cat\": 1", "starts like a JSON object, but is not one");
  ExpectDataLoss("{\"\": 1}", "classes: an empty class name");
  ExpectError(ClassMap::Read(Path("none")).status(), absl::StatusCode::kNotFound, "none: cannot");
}

Manifest WithClasses(ClassNames classes) {
  Manifest manifest;
  manifest.stem = "train";
  manifest.shards = {{"train-00000-of-00001", 0, 0, 0}};
  if (!classes.empty()) manifest.classes[std::string(kClassLabel)] = std::move(classes);
  return manifest;
}

TEST_F(ClassMapTest, DatasetsGiveTheirClasses) {
  const std::string text = FormatManifest(WithClasses({{0, "cat"}, {7, "\"dog\"\n"}}));
  const std::string manifest = Write("out/.shardfeed/train.manifest.json", text);
  Write("out/train-00000-of-00001", "");
  for (const std::string& name : {Path("out/train@1"), Path("out/train@*"), Path("out/train"),
                                  Path("out"), manifest, Write("copy", text)}) {
    const auto map = ClassMap::Read(name);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(map->classes(), (ClassNames{{0, "cat"}, {7, "\"dog\"\n"}}));
    EXPECT_EQ(map->path(), name);
    EXPECT_EQ(map->Lacks("the class \"x\""),
              "the class \"x\" is not in " + name +
                  "; leave it out, or convert both datasets with one list of all classes");
  }
  ExpectError(ClassMap::Read(Path("out/val@1")).status(), absl::StatusCode::kNotFound, "out/val");
}

TEST_F(ClassMapTest, DatasetsWithoutClassesAreTold) {
  Write("out/.shardfeed/train.manifest.json", FormatManifest(WithClasses({})));
  Write("out/train-00000-of-00001", "");
  Write("out/val-00000-of-00001", "");
  ExpectError(
      ClassMap::Read(Path("out/train@1")).status(), absl::StatusCode::kFailedPrecondition,
      "out/train@1: its manifest names no classes; convert it again, or list them in a file");
  ExpectError(ClassMap::Read(Path("out/val@1")).status(), absl::StatusCode::kFailedPrecondition,
              "out/val@1: the dataset has no manifest");
}

TEST_F(ClassMapTest, UnusedClassesAreNoted) {
  const auto map = Read("cat\ndog\ncow\n");
  EXPECT_EQ(map->NoteOfUnused({0, 1, 2}), "");
  EXPECT_EQ(map->NoteOfUnused({1}),
            Path("classes") + ": 2 of 3 classes do not occur here: cat, cow");
  EXPECT_EQ(map->Lacks("this class"),
            "this class is not in " + Path("classes") + "; add it there, or leave it out");
}

}  // namespace
}  // namespace shardfeed
