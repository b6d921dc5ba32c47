#include "convert/sources/captions.h"

#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\3\0\0\0\4\x08\2\0\0\0"s;

class CaptionsTest : public SourceTest {
 protected:
  std::unique_ptr<Source> Make(CaptionsOptions options = {}) {
    return *MakeCaptionsSource({Path("in")}, options);
  }
  // Reads records without the features that are the same in all.
  std::vector<std::string> Read(Source& source) {
    std::vector<Example> examples = Convert(source);
    for (Example& example : examples) {
      auto& features = *example.mutable_features()->mutable_feature();
      EXPECT_EQ(features["image/encoded"].bytes_list().value(0), kPng);
      for (const char* name : {"image/encoded", "image/format", "image/height", "image/width"}) {
        features.erase(name);
      }
    }
    return Texts(examples);
  }
  void ExpectScanError(const std::string& message,
                       absl::StatusCode code = absl::StatusCode::kDataLoss) {
    ExpectError(Scan(*Make()), code, message);
  }
};

TEST_F(CaptionsTest, TextJsonOrBoth) {
  Write("in/a.png", kPng);
  Write("in/a.txt", "\xef\xbb\xbfone\ntwo\r\n\n");
  Write("in/b.png", kPng);
  Write("in/b.json", "{\"x\": {\"y\": 1},\n \"z\": 2}");
  Write("in/d/c.png", kPng);
  Write("in/d/c.json", "\xef\xbb\xbf{\"z\": 0.5}");
  Write("in/d/c.txt", "");
  EXPECT_THAT(Read(*Make()),
              ElementsAre("image/filename=bytes[a.png] text=bytes[one\ntwo]",
                          "image/filename=bytes[b.png] x.y=int64[1] z=float[2]",
                          "image/filename=bytes[d/c.png] text=bytes[] z=float[0.5]"));
}

TEST_F(CaptionsTest, StemsNeedNotBeNeighbors) {
  for (const char* stem : {"a", "a-b", "a.b"}) {
    Write("in/"s + stem + ".png", kPng);
    Write("in/"s + stem + ".txt", stem);
  }
  EXPECT_THAT(Read(*Make()), ElementsAre("image/filename=bytes[a.png] text=bytes[a]",
                                         "image/filename=bytes[a-b.png] text=bytes[a-b]",
                                         "image/filename=bytes[a.b.png] text=bytes[a.b]"));
}

TEST_F(CaptionsTest, JsonIsKeptOnRequest) {
  Write("in/a.png", kPng);
  Write("in/a.json", "[1, [2]]\n");
  EXPECT_THAT(Read(*Make({.keep_json = true})),
              ElementsAre("image/filename=bytes[a.png] json=bytes[[1, [2]]\n]"));
  ExpectScanError("in/a.json:1: got an array, but the file must hold one JSON object");
}

TEST_F(CaptionsTest, TextsWithoutImagesAreNoted) {
  Write("in/a.png", kPng);
  Write("in/a.txt", "x");
  Write("in/b.txt", "x");
  Write("in/c.csv", "x");
  auto source = Make();
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre("skipped 2 files that are neither images nor their texts: " +
                          Path("in/c.csv") + ", " + Path("in/b.txt")));
  std::filesystem::remove(Path("in/c.csv"));
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(
      source->notes(),
      ElementsAre("skipped 1 file that is neither an image nor its text: " + Path("in/b.txt")));
}

TEST_F(CaptionsTest, DefectsAreTold) {
  std::filesystem::create_directories(Path("in"));
  ExpectScanError("in: no images");
  Write("in/a.png", kPng);
  ExpectScanError("in/a.png: the image has no text: expected a.txt or a.json");
  Write("in/a.txt", "\xff");
  auto source = Make();
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(BuildItem(*source, Items(*source)[0]).status(), absl::StatusCode::kDataLoss,
              "in/a.txt: not UTF-8; convert it");
  Write("in/a.txt", "\xff\xfe\x68");
  ExpectError(BuildItem(*source, Items(*source)[0]).status(), absl::StatusCode::kDataLoss,
              "in/a.txt: looks like UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)");
  Write("in/a.txt", "h\0i\0"s);
  ExpectError(BuildItem(*source, Items(*source)[0]).status(), absl::StatusCode::kDataLoss,
              "in/a.txt: looks like UTF-16LE; convert it to UTF-8 (iconv -f UTF-16LE -t UTF-8)");
  Write("in/a.txt", "hi\0there"s);
  ExpectError(BuildItem(*source, Items(*source)[0]).status(), absl::StatusCode::kDataLoss,
              "in/a.txt: a NUL byte at byte 2, which may be binary or UTF-16");
  Write("in/a.JPG", kPng);
  ExpectScanError("in/a.JPG: a.png has the same name except for the suffix");
  std::filesystem::remove(Path("in/a.JPG"));
  Write("in/a.json", "{\"x\": 1,\n \"y\" 2}");
  ExpectScanError("in/a.json:2:6: invalid JSON");
  Write("in/a.json", "\xfe\xff{}");
  ExpectScanError("in/a.json: looks like UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)");
  Write("in/a.json", "{\"text\": 1}");
  ExpectScanError(
      "in/a.json: the key \"text\" has the name of a feature that the image or the text makes");
  Write("in/a.json", "{\"x\": 1}");
  Write("in/b.png", kPng);
  Write("in/b.json", "{\"x\": \"one\"}");
  ExpectScanError("in/b.json: \"x\": text here, but a number at " + Path("in/a.json"));
  Write("in/b.png", "");
  ExpectScanError("in/b.png: the file is empty");
  std::filesystem::create_symlink("nowhere", Path("in/c.txt"));
  ExpectScanError("in/c.txt: the target of the link does not exist", absl::StatusCode::kNotFound);
  ExpectError(MakeCaptionsSource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected folders of images, got none");
}

}  // namespace
}  // namespace shardfeed
