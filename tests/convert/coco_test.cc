#include "convert/sources/coco.h"

#include "io/remedy.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The header of a PNG image of 10 x 20 pixels, which is all that is read.
const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x14\x08\2\0\0\0"s;

constexpr std::string_view kCategories =
    R"("categories": [{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}])";

class CocoTest : public SourceTest {
 protected:
  CocoTest() {
    Write("in/a.png", kPng);
    Write("in/b/c.png", kPng);
  }
  std::unique_ptr<Source> Open(std::string_view json) {
    return *MakeCocoSource({Write("x.json", json)}, {.images_folder = Path("in")});
  }
  // A file of two images with these annotations.
  static std::string File(std::string_view annotations, std::string_view categories = kCategories) {
    return "{\"annotations\": ["s + std::string(annotations) +
           "],\n \"images\": [{\"id\": 5, \"file_name\": \"b/c.png\", \"width\": 10, \"height\": "
           "20},\n{\"id\": \"x\", \"file_name\": \"a.png\", \"width\": 10, \"height\": 20}],\n" +
           std::string(categories) + "}";
  }
  // Converts to records without the features of the image itself and those that are empty.
  std::vector<std::string> Read(Source& source) {
    std::vector<Example> examples = Convert(source);
    for (Example& example : examples) {
      auto& features = *example.mutable_features()->mutable_feature();
      EXPECT_EQ(features["image/encoded"].bytes_list().value(0), kPng);
      for (const char* name :
           {"image/encoded", "image/format", "image/height", "image/width", "image/filename"}) {
        features.erase(name);
      }
    }
    return Texts(examples);
  }
  std::vector<std::string> Read(std::string_view json) { return Read(*Open(json)); }
  void ExpectScanError(std::string_view json, const std::string& message,
                       absl::StatusCode code = absl::StatusCode::kDataLoss) {
    ExpectError(Scan(*Open(json)), code, message);
  }
};

constexpr std::string_view kBox =
    R"({"id": 1, "image_id": 5, "category_id": 7, "bbox": [1, 5, 4, 10]})";

TEST_F(CocoTest, Boxes) {
  const std::string second =
      R"({"id": 2, "image_id": "x", "category_id": 3, "bbox": [0, 0, 10, 20], "area": 7.5,
          "iscrowd": 1})";
  const std::string third =
      R"({"id": 3, "image_id": 5, "category_id": 3, "bbox": [2.5, 0, 5, 20], "area": 3,
          "iscrowd": 0})";
  EXPECT_THAT(
      Read(File(std::string(kBox) + ",\n" + second + "," + third)),
      ElementsAre("image/object/area=float[40 3] image/object/bbox/xmax=float[0.5 0.75] "
                  "image/object/bbox/xmin=float[0.100000001 0.25] "
                  "image/object/bbox/ymax=float[0.75 1] image/object/bbox/ymin=float[0.25 0] "
                  "image/object/class/label=int64[7 3] image/object/class/text=bytes[cat dog] "
                  "image/object/is_crowd=int64[0 0] image/source_id=bytes[5]",
                  "image/object/area=float[7.5] image/object/bbox/xmax=float[1] "
                  "image/object/bbox/xmin=float[0] image/object/bbox/ymax=float[1] "
                  "image/object/bbox/ymin=float[0] image/object/class/label=int64[3] "
                  "image/object/class/text=bytes[dog] image/object/is_crowd=int64[1] "
                  "image/source_id=bytes[x]"));
}

TEST_F(CocoTest, OutlinesAndMasks) {
  const auto annotation = [](int id, std::string_view segmentation) {
    return "{\"id\": " + std::to_string(id) +
           ", \"image_id\": 5, \"category_id\": 7, \"bbox\": [1, 5, 4, 10], \"segmentation\": " +
           std::string(segmentation) + "}";
  };
  const std::vector<std::string> records = Read(File(
      annotation(1, "[[0, 0, 5, 0, 5, 10], [1, 2, 3, 4, 5, 6, 7, 8]]") + "," + annotation(2, "[]") +
      "," + annotation(3, R"({"counts": [3, 4, 193], "size": [20, 10]})") + "," +
      annotation(4, R"({"counts": "a\"b", "size": [20, 10]})")));
  ASSERT_EQ(records.size(), 2);
  EXPECT_THAT(records[0],
              HasSubstr("image/object/polygon=float[0 0 0.5 0 0.5 0.5 0.100000001 0.100000001 "
                        "0.300000012 0.200000003 0.5 0.300000012 0.699999988 0.400000006] "
                        "image/object/polygon_count=int64[2 0 0 0] "
                        "image/object/polygon_lengths=int64[6 8] "
                        "image/object/rle=int64[3 4 193] "
                        "image/object/rle_height=int64[0 0 20 20] "
                        "image/object/rle_lengths=int64[0 0 3 0] "
                        "image/object/rle_text=bytes[a\"b] "
                        "image/object/rle_width=int64[0 0 10 10] image/source_id"));
  // A record without objects has the same features, which are empty.
  EXPECT_THAT(records[1], HasSubstr("image/object/polygon=float[] "
                                    "image/object/polygon_count=int64[] "
                                    "image/object/polygon_lengths=int64[] "
                                    "image/object/rle=int64[] "));
}

TEST_F(CocoTest, KeypointsAndCaptions) {
  const std::string categories =
      R"("categories": [{"id": 1, "name": "person", "keypoints": ["nose", "tail"]}])";
  const std::string person =
      R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 5, 4, 10], "num_keypoints": 1,
          "keypoints": [5, 5, 2, 0, 0, 0]})";
  EXPECT_THAT(Read(File(person, categories))[0],
              HasSubstr("image/object/keypoint/lengths=int64[2] "
                        "image/object/keypoint/name=bytes[nose tail] "
                        "image/object/keypoint/num=int64[1] "
                        "image/object/keypoint/visibility=int64[2 0] "
                        "image/object/keypoint/x=float[0.5 0] "
                        "image/object/keypoint/y=float[0.25 0]"));
  EXPECT_THAT(Read(File(R"({"id": 1, "image_id": 5, "caption": "a cat"},
                           {"id": 2, "image_id": 5, "caption": "no dog"})",
                        "\"info\": {\"x\": [\"]}\"]}")),
              ElementsAre("image/caption=bytes[a cat no dog] image/source_id=bytes[5]",
                          "image/caption=bytes[] image/source_id=bytes[x]"));
  ExpectScanError(File(R"({"id": 1, "image_id": 5, "category_id": 1, "bbox": [1, 5, 4, 1],
               "keypoints": [5, 5, 2]})",
                       categories),
                  ":1: annotation 1: it has 1 keypoints, but its category \"person\" names 2");
}

TEST_F(CocoTest, WhatIsKeptIsNoted) {
  auto source = Open(File(
      R"({"id": 1, "image_id": 5, "category_id": 7, "bbox": [-1, 5, 4, 10], "score": 1},
         {"id": 2, "image_id": 5, "category_id": 7, "bbox": [6, 5, 4.001, 10], "area": 1},
         {"id": 3, "image_id": 5, "category_id": 7, "bbox": [6, 5, 0, 10],
          "segmentation": [[1, 2, 3, 4]]})"));
  EXPECT_THAT(Read(*source)[0], HasSubstr("xmin=float[-0.100000001 0.600000024 0.600000024]"));
  const std::string path = Path("x.json") + ": ";
  EXPECT_THAT(
      source->notes(),
      ElementsAre(path + "kept 1 image without annotations: a.png",
                  path + "kept 1 box not inside the image: annotation 1",
                  path + "kept 1 box without an area: annotation 3",
                  path + "kept 1 object with a polygon of less than 3 points: annotation 3",
                  path + "took the area of the box for 2 objects without an area: annotation 1, "
                         "annotation 3",
                  path + "no features for these keys of annotations: \"score\""));
}

TEST_F(CocoTest, DefectsAreTold) {
  const std::string name = Path("x.json");
  ExpectScanError(File(R"({"id": 1, "image_id": 6, "category_id": 7, "bbox": [1, 5, 4, 10]})"),
                  name + ":1: annotation 1: its image 6 is not among the images");
  // A text is another id than a number.
  ExpectScanError(File(R"({"id": 1, "image_id": "5", "category_id": 7, "bbox": [1, 5, 4, 10]})"),
                  "its image \"5\" is not among the images");
  ExpectScanError(File(R"({"id": 1, "image_id": 5, "category_id": 8, "bbox": [1, 5, 4, 10]})"),
                  name + ":1: annotation 1: its category 8 is not among the categories");
  ExpectScanError(File(std::string(kBox) + ",\n" + std::string(kBox)),
                  name + ":2: annotation 1: another annotation, in line 1, has the same id");
  ExpectScanError(File(R"({"id": 1, "image_id": 5, "category_id": 7})"),
                  "annotation 1: the key \"bbox\" is missing");
  // Messages show what the file has.
  ExpectScanError(File(R"({"id": 1, "image_id": 5, "category_id": 7, "bbox": [NaN, 5, 4, 10]})"),
                  "got \"[NaN,5,4,10]\"");
  ExpectScanError(File(R"({"id": 1, "image_id": 5, "bbox": [1, 5, 4, 10]})"),
                  "annotation 1: the key \"category_id\" is missing");
  ExpectScanError(File(R"({"id": 1, "category_id": 7, "bbox": [1, 5, 4, 10]})"),
                  "annotation 1: the key \"image_id\" is missing");
  for (const char* box :
       {"[1, 2, 3]", "[1, 2, -3, 4]", "[1, 2, 1e300, 4]", "\"1 2 3 4\"", "[1, 2, \"3\", 4]"}) {
    ExpectScanError(
        File("{\"id\": 1, \"image_id\": 5, \"category_id\": 7, \"bbox\": "s + box + "}"),
        "annotation 1: \"bbox\" must be [x, y, width, height]");
  }
  for (const char* outline :
       {"[1, 2]", "[[1]]", "[[1, \"2\"]]", "{\"counts\": [1]}",
        "{\"counts\": [-1], \"size\": [1, 1]}", "{\"counts\": 3, \"size\": [1, 1]}"}) {
    ExpectScanError(File("{\"id\": 1, \"image_id\": 5, \"category_id\": 7, \"bbox\": [1, 2, 3, "
                         "4], \"segmentation\": "s +
                         outline + "}"),
                    "annotation 1: \"segmentation\" must be ");
  }
  ExpectScanError(
      File("{\"id\": 1, \"image_id\": 5, \"category_id\": 7, \"bbox\": [NaN, 2, 3, 4]}"),
      name + ":1:");
  ExpectScanError(File(R"({"id": 1, "image_id": 5, "segments_info": []})"),
                  "annotation 1: the segments of a panoptic file");
  ExpectScanError(File("", R"("categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}])"),
                  name + ":4: category 1: another category has the same id");
  ExpectScanError(
      R"({"images": [{"id": 1, "file_name": "a.png"}, {"id": 1, "file_name": "a.png"}]})",
      name + ":1: image 1: another image has the same id");
  ExpectScanError(R"({"images": [{"id": 1, "file_name": "../x.png"}]})",
                  "image 1: the name \"../x.png\" leads outside of the folder of images");
  ExpectScanError(R"({"images": [{"id": 1}]})", "image 1: the key \"file_name\" is missing");
  ExpectScanError("[]", name + ":1: expected an object, got \"[]\"");
  ExpectScanError("{}", name + ": no images; expected an object");
  ExpectScanError("{\"images\": 3}", "expected an array of objects at \"images\", got \"3}\"");
  ExpectScanError("{\"images\": [", "the file ends inside the array");
  ExpectScanError("{\"info\": {", "the file ends inside the object");
  ExpectScanError("{\"images\": []", "the file ends inside the object");
  ExpectScanError("{\"images\": []} x", "expected the end of the file after the object");
  ExpectScanError("{\"images\": [] \"x\": 1}", "expected a comma or the end of the object");
  ExpectError(MakeCocoSource({"a", "b"}).status(), absl::StatusCode::kInvalidArgument,
              "expected one annotation file, got 2");
}

TEST_F(CocoTest, MissingImagesAreToldWithTheRemedy) {
  auto source = *MakeCocoSource({Write("x.json", File(kBox))});
  const absl::Status status = Scan(*source);
  ExpectError(status, absl::StatusCode::kNotFound,
              Path("x.json") + ":2: image 5: " + Path("b/c.png") + ": ");
  ASSERT_TRUE(RemedyOf(status).has_value());
  EXPECT_EQ(RemedyOf(status)->option, "images");
}

TEST_F(CocoTest, TheFoldersDefaultIsThatOfTheFile) {
  auto source = *MakeCocoSource({Write("in/x.json", File(kBox))});
  EXPECT_EQ(Read(*source).size(), 2);
}

TEST_F(CocoTest, AnImageOfAnotherSizeIsADefect) {
  auto source = Open(R"({"images": [{"id": 1, "file_name": "a.png", "width": 20, "height": 10},
                                    {"id": 2, "file_name": "a.png"}]})");
  ASSERT_TRUE(Scan(*source).ok());
  const std::vector<Kept> items = Items(*source);
  ASSERT_EQ(items.size(), 2);
  ExpectError(BuildItem(*source, items[0]).status(), absl::StatusCode::kDataLoss,
              Path("in/a.png") + ": the image has 10x20 pixels, but " + Path("x.json") +
                  " was made for 20x10; get the image that was annotated, or rotate this one");
  // Without sizes, those of the image count.
  EXPECT_TRUE(BuildItem(*source, items[1]).ok());
}

TEST_F(CocoTest, BrokenImagesAndAnnotationsAreLeftOut) {
  auto source =
      Open(R"({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "z.png"},
      {"id": 3, "file_name": "b/c.png"}, {"id": 1, "file_name": "a.png"}],
      "categories": [{"id": 7, "name": "cat"}],
      "annotations": [{"id": 1, "image_id": 1, "category_id": 7, "bbox": [0, 0, 5, 5]},
                      {"id": 2, "image_id": 2, "category_id": 7, "bbox": [0, 0, 5, 5]},
                      {"id": 3, "image_id": 3, "category_id": 9, "bbox": [0, 0, 5, 5]},
                      {"id": 4, "image_id": 3, "category_id": 7, "bbox": [0, 0, 5, 5]},
                      {"id": 5, "image_id": 4, "category_id": 7, "bbox": [0, 0, 5, 5]}]})");
  std::vector<std::string> defects;
  source->SkipDefects([&](const absl::Status& defect, uint64_t records) {
    EXPECT_EQ(records, 1);
    defects.emplace_back(defect.message());
  });
  EXPECT_EQ(Read(*source).size(), 1);
  EXPECT_THAT(defects, ElementsAre(HasSubstr("image 2: "), HasSubstr("image 1: another image"),
                                   HasSubstr("annotation 3: its category 9"),
                                   HasSubstr("annotation 5: its image 4")));
  EXPECT_EQ(source->num_records(), 1);
}

TEST_F(CocoTest, ACompressedFileIsRefused) {
  auto source = *MakeCocoSource({Write("c.json", "\x1f\x8b\x08\0\0\0\0\0\0\3"s)}, {});
  ExpectError(
      Scan(*source), absl::StatusCode::kDataLoss,
      "is compressed with gzip, but annotations are read in place; decompress it first (gzip -d)");
}

TEST_F(CocoTest, AFileThatChangesIsTold) {
  auto source = Open(File(kBox));
  ASSERT_TRUE(Scan(*source).ok());
  const std::vector<Kept> items = Items(*source);
  Write("x.json", std::string(File(kBox).size() - 1, ' '));
  ExpectError(BuildItem(*source, items[0]).status(), absl::StatusCode::kFailedPrecondition,
              "x.json: changed while it was being read");
  ExpectError(source->ForEach([](const Item&) { return absl::OkStatus(); }),
              absl::StatusCode::kFailedPrecondition, "x.json: changed while it was being read");
}

}  // namespace
}  // namespace shardfeed
