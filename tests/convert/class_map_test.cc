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

}  // namespace
}  // namespace shardfeed
