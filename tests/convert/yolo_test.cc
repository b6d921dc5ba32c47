#include "convert/sources/yolo.h"

#include "convert/sources/yolo_config.h"
#include "io/remedy.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// The header of a PNG image, which is all that is read.
const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x14\x08\2\0\0\0"s;

class YoloTest : public SourceTest {
 protected:
  // An image with labels in in/images/SUBSET and in/labels/SUBSET.
  void Add(const std::string& name, const std::string& labels) {
    Write("in/images/" + name + ".png", kPng);
    Write("in/labels/" + name + ".txt", labels);
  }
  std::unique_ptr<Source> Open(const std::string& path = "in", const std::string& subset = "") {
    return *MakeYoloSource({Path(path)}, {.subset = subset});
  }
  // Converts to records without the features of the image itself, except its name.
  std::vector<std::string> Read(Source& source) {
    std::vector<Example> examples = Convert(source);
    for (Example& example : examples) {
      auto& features = *example.mutable_features()->mutable_feature();
      for (const char* name : {"image/encoded", "image/format", "image/height", "image/width"}) {
        features.erase(name);
      }
    }
    return Texts(examples);
  }
  void ExpectScanError(const std::string& message, const std::string& path = "in",
                       const std::string& subset = "",
                       absl::StatusCode code = absl::StatusCode::kDataLoss) {
    ExpectError(Scan(*Open(path, subset)), code, message);
  }
  static void ExpectConfigError(std::string_view text, const std::string& message) {
    ExpectError(ParseYoloConfig(text, "y").status(), absl::StatusCode::kDataLoss, message);
  }
};

TEST_F(YoloTest, Boxes) {
  Add("b",
      "\xef\xbb\xbf"
      "1 0.5 0.5 0.5 1\n\r\n  0\t0.25 0.25 0.5 5e-1\r\n");
  Add("d/a", "");
  Write("in/images/c.png", kPng);
  Write("in/labels/z.txt", "");
  Write("in/images/readme.md", "");
  Write("in/classes.txt", "cat\ndog\n");
  auto source = Open();
  EXPECT_THAT(
      Read(*source),
      ElementsAre("image/filename=bytes[b.png] image/object/bbox/xmax=float[0.75 0.5] "
                  "image/object/bbox/xmin=float[0.25 0] image/object/bbox/ymax=float[1 0.5] "
                  "image/object/bbox/ymin=float[0 0] image/object/class/label=int64[1 0] "
                  "image/object/class/text=bytes[dog cat]",
                  "image/filename=bytes[c.png] image/object/bbox/xmax=float[] "
                  "image/object/bbox/xmin=float[] image/object/bbox/ymax=float[] "
                  "image/object/bbox/ymin=float[] image/object/class/label=int64[] "
                  "image/object/class/text=bytes[]",
                  HasSubstr("image/filename=bytes[d/a.png] ")));
  EXPECT_THAT(
      source->notes(),
      ElementsAre(
          "kept the images of 1 label file without a line: " + Path("in/labels/d/a.txt"),
          "kept 1 image without a label file, as without objects: " + Path("in/labels/c.txt"),
          "skipped 1 label file without an image: " + Path("in/labels/z.txt"),
          "skipped 1 file not named like an image: " + Path("in/images/readme.md")));
}

TEST_F(YoloTest, OutlinesHaveTheSmallestBoxAroundThem) {
  Add("a", "2 0.1 0.5 0.3 0.25 0.2 0.75\n0 0.5 0.5 0.5 1\n");
  auto source = Open();
  EXPECT_THAT(Read(*source)[0],
              HasSubstr("xmax=float[0.300000012 0.75] image/object/bbox/xmin=float[0.100000001 "
                        "0.25] image/object/bbox/ymax=float[0.75 1] "
                        "image/object/bbox/ymin=float[0.25 0] image/object/class/label=int64[2 0] "
                        "image/object/polygon=float[0.100000001 0.5 0.300000012 0.25 0.200000003 "
                        "0.75] image/object/polygon_count=int64[1 0] "
                        "image/object/polygon_lengths=int64[6]"));
  EXPECT_THAT(source->notes(),
              ElementsAre(Path("in") + ": no names of classes (data.yaml or classes.txt), so "
                                       "records have only their numbers",
                          "took the smallest box around each outline, 1 in all: " +
                              Path("in/labels/a.txt:1")));
}

TEST_F(YoloTest, Keypoints) {
  Add("a", "0 0.5 0.5 0.5 1 0.25 0.5 2.000 0 0 0\n");
  Write("in/data.yaml", "train: images\nkpt_shape: [2, 3]\nnames: [person]\n");
  EXPECT_THAT(Read(*Open())[0], HasSubstr("image/object/keypoint/lengths=int64[2] "
                                          "image/object/keypoint/num=int64[1] "
                                          "image/object/keypoint/visibility=int64[2 0] "
                                          "image/object/keypoint/x=float[0.25 0] "
                                          "image/object/keypoint/y=float[0.5 0]"));
  Add("a", "0 0.5 0.5 0.5 1 0.25 0.5 1 0 0 0\n");
  Write("in/data.yaml", "train: images\nkpt_shape: [3, 2]\nnames: [person]\n");
  EXPECT_THAT(Read(*Open())[0], HasSubstr("image/object/keypoint/lengths=int64[3] "
                                          "image/object/keypoint/num=int64[3] "
                                          "image/object/keypoint/x=float[0.25 1 0] "));
}

TEST_F(YoloTest, BoxesThatLeaveTheImageAreKeptAndNoted) {
  Add("a", "0 0.999 0.5 0.01 1\n0 0.5 0.5 0 1\n0 0.5 0.5 1.00002 1\n");
  auto source = Open();
  EXPECT_THAT(Read(*source)[0], HasSubstr("xmax=float[1.00399995 0.5 1.00001001]"));
  EXPECT_THAT(source->notes(),
              ElementsAre(HasSubstr("no names of classes"),
                          "kept 1 box not inside the image: " + Path("in/labels/a.txt:1"),
                          "kept 1 box without an area: " + Path("in/labels/a.txt:2")));
}

TEST_F(YoloTest, SubsetsAreChosen) {
  Add("train/a", "0 0.5 0.5 0.5 1\n");
  Add("val/b", "0 0.5 0.5 0.5 1\n");
  const auto named = [](const char* name) {
    return ElementsAre(HasSubstr("image/filename=bytes["s + name + "]"));
  };
  EXPECT_THAT(Read(*Open("in", "val")), named("b.png"));
  ExpectScanError("in/images: several subsets: train, val", "in", "",
                  absl::StatusCode::kInvalidArgument);
  ExpectScanError("neither images/test nor test/images is a folder", "in", "test",
                  absl::StatusCode::kNotFound);
  Write("in/data.yaml", "path: .\ntrain: images/train\nval: [images/val]\ntest:\nnames:\n  0: x\n");
  EXPECT_THAT(Read(*Open("in/data.yaml", "train")), named("a.png"));
  EXPECT_THAT(Read(*Open("in", "val")), named("b.png"));
  const absl::Status status = Scan(*Open());
  ExpectError(status, absl::StatusCode::kInvalidArgument, "data.yaml: several subsets: train, val");
  EXPECT_EQ(RemedyOf(status)->option, "subset");
  ExpectScanError("data.yaml: no subset \"test\", but train, val", "in", "test",
                  absl::StatusCode::kInvalidArgument);
}

TEST_F(YoloTest, FoldersAreWhereToolsMeanThem) {
  Write("in/train/images/a.png", kPng);
  Write("in/train/labels/a.txt", "0 0.5 0.5 0.5 1\n");
  // Roboflow writes this beside the folder train.
  Write("in/data.yaml", "train: ../train/images\nnames: ['x']\n");
  auto source = Open();
  EXPECT_EQ(Read(*source).size(), 1);
  EXPECT_THAT(source->notes(),
              ElementsAre(Path("in/data.yaml") + ": took " + Path("in/train/images") +
                          " for train, since " + Path("in/../train/images") + " does not exist"));
  Write("in/data.yaml", "path: elsewhere\ntrain: train/images\nnames: ['x']\n");
  EXPECT_EQ(Read(*Open()).size(), 1);
  EXPECT_EQ(Read(*Open("in/train")).size(), 1);
  Write("in/data.yaml", "train: x.txt\nnames: ['x']\n");
  ExpectScanError("in/x.txt of train does not exist", "in", "", absl::StatusCode::kNotFound);
  Write("in/x.txt", "train/images/a.png\n");
  ExpectScanError("in/x.txt is a file; lists of images are not read");
  Write("in/data.yaml", "names: ['x']\n");
  ExpectScanError("none of the keys train, val and test names a folder");
}

TEST_F(YoloTest, DefectsOfLabelsAreTold) {
  Write("in/classes.txt", "cat\ndog\n");
  const std::string place = Path("in/labels/a.txt") + ":2: ";
  const auto expect = [&](const std::string& line, const std::string& message) {
    Add("a", "0 0.5 0.5 0.5 1\n" + line + "\n");
    ExpectScanError(place + message);
  };
  expect("cat 0.5 0.5 0.5 1", "the line must begin with the number of a class, got \"cat\"");
  expect("-1 0.5 0.5 0.5 1", "the line must begin with the number of a class, got \"-1\"");
  expect("2 0.5 0.5 0.5 1", "the class 2 has no name; there are 2, from 0 on");
  expect("0 0.5 0.5 0.5",
         "expected 4 values of a box, or x and y of at least 3 points, after the "
         "class, got 3 values");
  expect("0 0.5 0.5 0.5 1 0.9", "expected 4 values of a box");
  expect("0 0.5 0.5 nan 1", "expected a number, got \"nan\"");
  expect("0 0.5 0,5 0.5 1", "expected a number, got \"0,5\"");
  expect("0 320 240 64 48", "320 is not between 0 and 1; coordinates are fractions");
  expect("0 0.5 0.5 -0.005 1", "the box has a negative size, -0.005 x 1");
  std::filesystem::remove_all(Path("in/labels"));
  ExpectScanError("no image has a label file; expected " + Path("in/labels/a.txt"));
  std::filesystem::remove_all(Path("in/images"));
  ExpectScanError("in: expected a file data.yaml, or the folders images and labels", "in", "",
                  absl::StatusCode::kNotFound);
  std::filesystem::create_directories(Path("in/images"));
  ExpectScanError("in/images: no images");
  ExpectError(MakeYoloSource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected one data.yaml or folder, got 0");
}

TEST_F(YoloTest, ImagesWithBrokenLabelsAreLeftOut) {
  Add("a", "0 0.5 0.5 0.5\n");
  Add("b", "0 0.5 0.5 0.5 1\n");
  Write("in/images/c.png", "");
  auto source = Open();
  std::vector<std::string> defects;
  source->SkipDefects(
      [&](const absl::Status& defect, uint64_t) { defects.emplace_back(defect.message()); });
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("bytes[b.png]")));
  EXPECT_THAT(defects, ElementsAre(HasSubstr("a.txt:1: expected 4 values"),
                                   HasSubstr("c.png: the file is empty")));
}

TEST_F(YoloTest, ConfigsInAllForms) {
  const YoloConfig config = *ParseYoloConfig(
      "\xef\xbb\xbf# a comment\n---\npath: \"../a b\"  # root\ntrain: images/train#1\nval:\n"
      "- x # one\n- 'it''s'\ndownload: |\n  names: [y]\n  import x\nroboflow:\n  workspace: z\n"
      "nc: 2\nnames: ['a, b',\n   \"c: \\\"d\\\"\",  # two\n]\nkpt_shape: [17, 3]\n",
      "y");
  EXPECT_EQ(config.root, "../a b");
  EXPECT_THAT(config.subsets, ElementsAre(Pair("train", ElementsAre("images/train#1")),
                                          Pair("val", ElementsAre("x", "it's"))));
  EXPECT_THAT(config.names, ElementsAre("a, b", "c: \"d\""));
  EXPECT_EQ(config.num_keypoints, 17);
  EXPECT_EQ(config.keypoint_values, 3);
  for (const char* text :
       {"names:\n  1: dog\n  0: cat\n", "names: {0: cat, 1: dog}", "names:\n- cat\n- dog\nval: x\n",
        "names:\r\n  - cat\r\n  - dog\r\n", "names: [cat, dog]", "'names': [\ncat\n, dog]\n"}) {
    EXPECT_THAT(ParseYoloConfig(text, "y")->names, ElementsAre("cat", "dog")) << text;
  }
  EXPECT_THAT(ParseYoloConfig("names: []", "y")->names, IsEmpty());
  EXPECT_THAT(ParseYoloConfig("test: # none\nval: x", "y")->subsets,
              ElementsAre(Pair("val", ElementsAre("x"))));
}

TEST_F(YoloTest, ConfigsInOtherFormsAreTold) {
  ExpectConfigError("names: *a", "y:1: \"*a\" is not in the form of YAML that is read here");
  ExpectConfigError("\nnames:\n  - |\n    x\n", "y:3: \"|\" is not in the form");
  ExpectConfigError("names:\n  - - x\n", "y:2: ");
  ExpectConfigError("names: [a, [b]]", "y:1: \"[b]]\" is not in the form");
  ExpectConfigError("names: [a", "y:1: the \"[\" is never closed");
  ExpectConfigError("names: ['a]", "y:1: \"'a]\" is not closed");
  ExpectConfigError("names: [\"\\x41\"]", "is not in the form");
  ExpectConfigError("names: cat", "y:1: names must be a list, or a map with the keys 0, 1");
  ExpectConfigError("names: {1: cat}", "the keys of names must be 0 to 0, each once, got \"1\"");
  ExpectConfigError("names: {0: cat, 0: dog}", "the class 0 is named twice");
  ExpectConfigError("names: ['']", "the name of class 0 is empty");
  ExpectConfigError("names:\n  0: a\n   1: b\n", "y:3: ");
  ExpectConfigError("names:\n\t0: a\n", "y:2: a tab in the indent");
  ExpectConfigError("path: a\n\n  b", "y:3: this continues the value above it");
  ExpectConfigError("names: [a]\nnames: [b]", "y:2: names appears twice");
  ExpectConfigError("nc: x", "y:1: nc must be a number of classes, got \"x\"");
  ExpectConfigError("nc: 2\nnames: [a]", "y: nc is 2, but there are 1 names");
  ExpectConfigError("path: [a]", "y:1: path must be one value");
  ExpectConfigError("train: {a: b}", "y:1: train must be a folder, or a list of folders");
  ExpectConfigError("kpt_shape: [17, 4]", "y:1: kpt_shape must be [number of keypoints, 2 or 3]");
  ExpectConfigError("names", "y:1: expected \"KEY: VALUE\", got \"names\"");
  ExpectConfigError("\xff", "y: not UTF-8 text");
}

}  // namespace
}  // namespace shardfeed
