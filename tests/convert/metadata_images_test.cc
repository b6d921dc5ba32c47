#include "convert/sources/metadata_images.h"

#include "io/remedy.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// The header of a PNG image, which is all that is read.
const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x14\x08\2\0\0\0"s;

class MetadataImagesTest : public SourceTest {
 protected:
  MetadataImagesTest() {
    Write("in/a.png", kPng);
    Write("in/cats/b.png", kPng);
  }
  std::unique_ptr<Source> Open(const std::string& name, std::string_view table) {
    return *MakeMetadataImagesSource(Write("in/" + name, table), {});
  }
  // Converts to records without the features of the image itself, except its name.
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
};

TEST_F(MetadataImagesTest, TableOfCells) {
  auto source = Open("metadata.csv",
                     "file_name,n,text\ncats/b.png,1,\"x,y\"\na.png,0.5,\n"
                     "a.png,2,z\n");
  EXPECT_THAT(
      Read(*source),
      ElementsAre(
          "file_name=bytes[cats/b.png] image/filename=bytes[cats/b.png] n=float[1] text=bytes[x,y]",
          "file_name=bytes[a.png] image/filename=bytes[a.png] n=float[0.5]",
          "file_name=bytes[a.png] image/filename=bytes[a.png] n=float[2] text=bytes[z]"));
  EXPECT_THAT(source->notes()[0],
              Path("in/metadata.csv").insert(0, "took features and the order of the images from ") +
                  "; folders are not classes");
}

TEST_F(MetadataImagesTest, LinesOfJson) {
  auto source = Open("metadata.jsonl",
                     "{\"file_name\": \"cats\\/b.png\", \"box\": {\"x\": [1, 2]}}\n\n"
                     "{\"text\": \"t\", \"file_name\": \"a.png\"}\n");
  EXPECT_THAT(
      Read(*source),
      ElementsAre("box.x=int64[1 2] file_name=bytes[cats/b.png] image/filename=bytes[cats/b.png]",
                  "file_name=bytes[a.png] image/filename=bytes[a.png] text=bytes[t]"));
}

TEST_F(MetadataImagesTest, OtherFilesAreNoted) {
  Write("in/z.md", "");
  auto source = Open("metadata.csv", "file_name\n./a.png\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre(HasSubstr("took features"), HasSubstr("read as CSV"),
                          "skipped 1 image without a row: " + Path("in/cats/b.png"),
                          "skipped 1 file not named like an image: " + Path("in/z.md")));
}

TEST_F(MetadataImagesTest, OptionsOfTablesAreNotNamed) {
  auto source = Open("metadata.csv",
                     "file_name,where,n,day\na.png,K\xf6ln,\"1,000\",2024-01-31\n"
                     "cats/b.png,NA,\"2,000\",2024-02-01\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(
      source->notes(),
      ElementsAre(HasSubstr("took features"),
                  "read as CSV: delimiter ',', header, Windows-1252 (a guess: not UTF-8)",
                  MatchesRegex("column \"n\" is bytes because .* the first \"1,000\" at .*:2"),
                  MatchesRegex("column \"where\" is text, so \"NA\" at .*:3 is kept"),
                  "1 column of dates, kept as text: \"day\""));
  auto quoted = Open("metadata.csv", "file_name,x\na.png,\"1\n");
  const absl::Status status = Scan(*quoted);
  ExpectError(status, absl::StatusCode::kDataLoss, "the quote that opens here is never closed");
  EXPECT_EQ(RemedyOf(status), std::nullopt);
}

TEST_F(MetadataImagesTest, DefectsAreTold) {
  const auto expect = [&](const std::string& name, std::string_view table,
                          const std::string& message,
                          absl::StatusCode code = absl::StatusCode::kDataLoss) {
    ExpectError(Scan(*Open(name, table)), code, message);
  };
  const std::string csv = Path("in/metadata.csv");
  const std::string json = Path("in/metadata.jsonl");
  expect("metadata.csv", "name\na.png\n",
         csv +
             ": column \"file_name\" does not exist; the columns are \"name\"; rename the file if "
             "it does not describe images",
         absl::StatusCode::kInvalidArgument);
  expect("metadata.csv", "file_name,x\n,1\n", csv + ":2: no file_name, which names the image");
  expect("metadata.csv", "file_name\nb.png\n", csv + ":2: " + Path("in/b.png"),
         absl::StatusCode::kNotFound);
  expect("metadata.csv", "file_name\n/etc/passwd\n",
         csv + ":2: the name \"/etc/passwd\" leads outside of the folder of images");
  expect("metadata.csv", "file_name,image/width\na.png,3\n",
         csv + ":1: the column \"image/width\" has the name of a feature that the image makes");
  expect("metadata.jsonl", "{\"file_name\": \"a.png\"}\n{\"x\": 1}\n", json + ":2: no file_name");
  expect("metadata.jsonl", "{\"file_name\": 3}\n",
         json + ":1: file_name must be a text, got \"3\"");
  expect("metadata.jsonl", "{\"file_name\": \"a.png\", \"image/width\": 3}\n",
         json + ":1: the column \"image/width\" has the name");
}

TEST_F(MetadataImagesTest, BrokenRowsAreLeftOut) {
  auto source = Open("metadata.csv", "file_name,n\na.png,1,2\nb.png,3\ncats/b.png,4\n");
  std::vector<std::string> defects;
  source->SkipDefects(
      [&](const absl::Status& defect, uint64_t) { defects.emplace_back(defect.message()); });
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("n=int64[4]")));
  EXPECT_THAT(defects, ElementsAre(HasSubstr("metadata.csv:2: expected 2 cells"),
                                   HasSubstr("metadata.csv:3: " + Path("in/b.png"))));
}

TEST_F(MetadataImagesTest, TablesAreFound) {
  EXPECT_EQ(*FindMetadata({Path("in")}), "");
  EXPECT_EQ(*FindMetadata({Path("none"), Path("in/a.png")}), "");
  Write("in/metadata.csv", "file_name\na.png\n");
  EXPECT_EQ(*FindMetadata({Path("in/")}), Path("in/metadata.csv"));
  ExpectError(FindMetadata({Path("other"), Path("in")}).status(),
              absl::StatusCode::kInvalidArgument,
              Path("in/metadata.csv") + " describes the images of one folder");
  Write("in/metadata.jsonl", "");
  ExpectError(FindMetadata({Path("in")}).status(), absl::StatusCode::kInvalidArgument,
              Path("in/metadata.csv") + " and " + Path("in/metadata.jsonl") + " both describe");
  Write("splits/train/metadata.csv", "");
  Write("splits/test/metadata.jsonl", "");
  ExpectError(
      FindMetadata({Path("splits")}).status(), absl::StatusCode::kInvalidArgument,
      "its folders have a table of their images each; convert each on its own, or rename the "
      "tables if they describe something else: " +
          Path("splits/test") + ", " + Path("splits/train"));
}

}  // namespace
}  // namespace shardfeed
