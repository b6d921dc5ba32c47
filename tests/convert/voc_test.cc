#include "convert/sources/voc.h"

#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The header of a PNG image of 10 x 20 pixels, which is all that is read.
const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x14\x08\2\0\0\0"s;

std::string Box(const std::string& numbers) {
  std::string box = "<bndbox>";
  std::istringstream stream(numbers);
  for (const char* name : {"xmin", "ymin", "xmax", "ymax"}) {
    std::string number;
    stream >> number;
    box += "<"s + name + ">" + number + "</" + name + ">";
  }
  return box + "</bndbox>";
}

std::string Object(const std::string& name, const std::string& numbers,
                   const std::string& rest = "") {
  return "<object>\n<name>" + name + "</name>" + rest + Box(numbers) + "</object>\n";
}

std::string Xml(const std::string& objects,
                const std::string& size = "<size><width>10</width><height>20</height></size>") {
  return "<annotation>\n" + size + objects + "</annotation>";
}

class VocTest : public SourceTest {
 protected:
  void Add(const std::string& name, const std::string& xml) {
    Write("in/Annotations/" + name + ".xml", xml);
    Write("in/JPEGImages/" + name + ".jpg", kPng);
  }
  std::unique_ptr<Source> Open(VocOptions options = {}) {
    return *MakeVocSource({Path("in/")}, std::move(options));
  }
  // Converts to records without the features of the image itself.
  std::vector<std::string> Read(Source& source) {
    std::vector<Example> examples = Convert(source);
    for (Example& example : examples) {
      auto& features = *example.mutable_features()->mutable_feature();
      EXPECT_EQ(features["image/filename"].bytes_list().value(0),
                features["image/source_id"].bytes_list().value(0));
      for (const char* name :
           {"image/encoded", "image/format", "image/height", "image/width", "image/filename"}) {
        features.erase(name);
      }
    }
    return Texts(examples);
  }
  void ExpectScanError(const std::string& message, VocOptions options = {},
                       absl::StatusCode code = absl::StatusCode::kDataLoss) {
    ExpectError(Scan(*Open(std::move(options))), code, message);
  }
  ClassMap Classes(const std::string& names) { return *ClassMap::Read(Write("map", names)); }
};

TEST_F(VocTest, Boxes) {
  Add("b", Xml(Object("dog", "1 1 10 20", "<difficult>1</difficult><pose> Left </pose>") +
               Object("cat", "3 5.5 5 10")));
  Add("a", Xml(""));
  auto source = Open();
  EXPECT_THAT(
      Read(*source),
      ElementsAre("image/object/bbox/xmax=float[] image/object/bbox/xmin=float[] "
                  "image/object/bbox/ymax=float[] image/object/bbox/ymin=float[] "
                  "image/object/class/label=int64[] image/object/class/text=bytes[] "
                  "image/object/difficult=int64[] image/object/view=bytes[] "
                  "image/source_id=bytes[a.jpg]",
                  "image/object/bbox/xmax=float[1 0.5] image/object/bbox/xmin=float[0 0.200000003] "
                  "image/object/bbox/ymax=float[1 0.5] image/object/bbox/ymin=float[0 0.224999994] "
                  "image/object/class/label=int64[1 0] image/object/class/text=bytes[dog cat] "
                  "image/object/difficult=int64[1 0] image/object/view=bytes[Left ] "
                  "image/source_id=bytes[b.jpg]"));
  EXPECT_THAT(source->notes(),
              ElementsAre("numbered 2 classes from 0 in the order of the names: cat, dog",
                          "kept images without objects in 1 file: " + Path("in/Annotations/a.xml"),
                          "took 0, or an empty pose, for objects without difficult, truncated or "
                          "pose in 1 file: " +
                              Path("in/Annotations/b.xml")));
}

TEST_F(VocTest, BoxesThatCountFromZero) {
  Add("a", Xml(Object("dog", "0 0 5 20")));
  EXPECT_THAT(Read(*Open({.zero_based = true}))[0],
              HasSubstr("xmax=float[0.5] image/object/bbox/xmin=float[0] "
                        "image/object/bbox/ymax=float[1] image/object/bbox/ymin=float[0] "));
  auto source = Open();
  EXPECT_THAT(Read(*source)[0], HasSubstr("xmin=float[-0.100000001]"));
  EXPECT_THAT(source->notes()[1], HasSubstr("kept boxes that leave the image, whose first pixel is "
                                            "1, in 1 file: "));
}

TEST_F(VocTest, SubsetsHaveTheClassesOfAllAnnotations) {
  Add("a", Xml(Object("dog", "1 1 2 2")));
  Add("b", Xml(Object("cat", "1 1 2 2")));
  Write("in/ImageSets/Main/train.txt", "a\r\n\n");
  EXPECT_THAT(Read(*Open({.subset = "train"})),
              ElementsAre(HasSubstr("label=int64[1] image/object/class/text=bytes[dog]")));
  VocOptions options;
  options.subset = "train";
  options.classes = Classes("dog\n");
  EXPECT_THAT(Read(*Open(std::move(options))), ElementsAre(HasSubstr("label=int64[0]")));
  ExpectScanError("in/ImageSets/Main/val.txt", {.subset = "val"}, absl::StatusCode::kNotFound);
  Write("in/ImageSets/Main/val.txt", "a -1\n");
  ExpectScanError("val.txt:1: expected the name of an image without its suffix, got \"a -1\"",
                  {.subset = "val"});
  Write("in/ImageSets/Main/val.txt", "a\na\n");
  ExpectScanError("val.txt:2: \"a\" appears twice", {.subset = "val"});
  Write("in/ImageSets/Main/val.txt", "\n");
  ExpectScanError("val.txt: the list is empty", {.subset = "val"});
  Write("in/ImageSets/Main/val.txt", "c\n");
  ExpectScanError("in/Annotations/c.xml does not exist, but ImageSets/Main/val.txt lists \"c\"",
                  {.subset = "val"});
}

TEST_F(VocTest, OneFolderMayHaveBoth) {
  Write("in/a.xml", Xml(Object("dog", "1 1 2 2"), ""));
  Write("in/a.png", kPng);
  Write("in/b.png", kPng);
  auto source = Open();
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("image/source_id=bytes[a.png]")));
  EXPECT_THAT(source->notes(),
              ElementsAre(Path("in") + ": took images and annotations from this folder, since it "
                                       "has no folder Annotations",
                          HasSubstr("numbered 1 class from 0"),
                          "skipped 1 image without annotations: " + Path("in/b.png")));
}

TEST_F(VocTest, WhatElseIsFoundIsNoted) {
  Add("a", "<!DOCTYPE annotation [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>" +
               Xml(Object("d&e;g", "1 1 2 2", "<part><name>head</name></part>"),
                   "<filename>other.jpg</filename>"));
  auto source = Open();
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("class/text=bytes[d&e;g]")));
  EXPECT_THAT(source->notes(),
              ElementsAre(HasSubstr("numbered"),
                          HasSubstr("took the image of the same name in spite of another "
                                    "<filename> in 1 file: "),
                          "no features for these elements of objects: \"part\""));
}

TEST_F(VocTest, DefectsAreTold) {
  const std::string place = Path("in/Annotations/a.xml") + ":";
  const auto expect = [&](const std::string& xml, const std::string& message) {
    Add("a", xml);
    ExpectScanError(message);
  };
  expect("<annotation>\n<object>\n", place + "2: invalid XML: ");
  expect("", place + "1: invalid XML: ");
  expect("<x/>", place + "1: expected <annotation>, got <x>");
  expect(Xml("\n<object><name>a</name></object>"), place + "3: the object has no <bndbox>");
  expect(Xml("<object>" + Box("1 1 2 2") + "</object>"), "the object has no <name>");
  expect(Xml(Object("a", "1 1 2")), place + "3: <ymax> must be a number, got \"\"");
  expect(Xml(Object("a", "1 1 x 2")), "<xmax> must be a number, got \"x\"");
  expect(Xml(Object("a", "1 1 inf 2")), "<xmax> must be a number, got \"inf\"");
  expect(Xml(Object("a", "3 1 2 2")),
         place + "3: the box ends before it begins: x from 3 to 2, y from 1 to 2");
  expect(Xml("<object><name>a</name><bndbox></bndbox></object>"), "the box has no <xmin>");
  expect(Xml(Object("a", "1 1 2 2", "<difficult>yes</difficult>")),
         "<difficult> must be 0 or 1, got \"yes\"");
  expect(Xml("<object><name>c<!-- x -->at</name>" + Box("1 1 2 2") + "</object>"),
         "the text of <name> is divided by a comment or an element");
  expect(Xml("<object><name>a</name><name>b</name>" + Box("1 1 2 2") + "</object>"),
         place + "2: <object> has two <name>");
  expect(Xml(Object("a", "1<!---->2 1 3 2")), "the text of <xmin> is divided by a comment");
  expect(Xml(Object("\xff", "1 1 2 2")), "<name> must be UTF-8");
  expect(Xml("", "<size><width>-1</width></size>"), "<width> must be a number of pixels");
  Add("a", Xml(Object("a", "1 1 2 2")));
  VocOptions options;
  options.classes = Classes("b\n");
  ExpectScanError("a.xml: object 1: the class \"a\" is not in " + Path("map"), std::move(options));
  Write("in/JPEGImages/a.png", kPng);
  ExpectScanError("a.xml: several images are named " + Path("in/JPEGImages/a.*"));
  std::filesystem::remove(Path("in/JPEGImages/a.png"));
  std::filesystem::remove(Path("in/JPEGImages/a.jpg"));
  ExpectScanError("a.xml: no image " + Path("in/JPEGImages/a.*"));
  std::filesystem::remove(Path("in/Annotations/a.xml"));
  ExpectScanError("in/Annotations: no annotations; expected ");
  ExpectError(MakeVocSource({}).status(), absl::StatusCode::kInvalidArgument, "expected folders");
}

TEST_F(VocTest, BrokenAnnotationsAreLeftOut) {
  Add("a", Xml(Object("a", "1 1 2 2")));
  Add("b", Xml(Object("a", "1 1 2")));
  Add("c", Xml("", "<size><width>20</width><height>10</height></size>"));
  auto source = Open();
  std::vector<std::string> defects;
  source->SkipDefects(
      [&](const absl::Status& defect, uint64_t) { defects.emplace_back(defect.message()); });
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(defects, ElementsAre(HasSubstr("in/Annotations/b.xml:3: <ymax>")));
  EXPECT_EQ(source->num_records(), 2);
  const std::vector<Kept> items = Items(*source);
  EXPECT_TRUE(BuildItem(*source, items[0]).ok());
  ExpectError(BuildItem(*source, items[1]).status(), absl::StatusCode::kDataLoss,
              Path("in/JPEGImages/c.jpg") + ": the image has 10x20 pixels, but " +
                  Path("in/Annotations/c.xml") + " was made for 20x10");
}

}  // namespace
}  // namespace shardfeed
