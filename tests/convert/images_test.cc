#include "convert/sources/images.h"

#include "convert/sources/files.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The header of a PNG image, which is all that is read.
std::string Png(char height = 3, char width = 5) {
  return "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0"s + width + "\0\0\0"s + height + "\x08\2\0\0\0"s;
}

class ImagesTest : public SourceTest {
 protected:
  std::unique_ptr<Source> Make(std::vector<std::string> paths, std::string_view labels = "",
                               std::string_view classes = "") {
    ImagesOptions options;
    if (!labels.empty()) options.labels = *LabelFile::Read(Write("labels.csv", labels));
    if (!classes.empty()) options.classes = *ClassMap::Read(Write("classes", classes));
    absl::StatusOr<std::unique_ptr<Source>> source =
        MakeImagesSource(std::move(paths), std::move(options));
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  // Reads records without their images.
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
};

TEST_F(ImagesTest, FlatFolder) {
  Write("in/b.png", Png());
  Write("in/a.PNG", Png(7, 9));
  Write("in/.hidden.png", "");
  Write("in/readme.txt", "?");
  auto source = Make({Path("in/")});
  const std::vector<Example> examples = Convert(*source);
  ASSERT_EQ(examples.size(), 2);
  EXPECT_EQ(Text(examples[0]), "image/encoded=bytes[" + Png(7, 9) +
                                   "] image/filename=bytes[a.PNG] image/format=bytes[png] "
                                   "image/height=int64[7] image/width=int64[9]");
  EXPECT_THAT(source->notes(),
              ElementsAre("skipped 1 file not named like an image: " + Path("in/readme.txt")));
}

TEST_F(ImagesTest, FoldersInsideComeAfterTheFilesAndFilesAreSources) {
  Write("in/z.png", Png());
  Write("in/d/a.png", Png());
  Write("one.png", Png());
  EXPECT_THAT(Read(*Make({Path("one.png"), Path("in")})),
              ElementsAre("image/filename=bytes[" + Path("one.png") + "]",
                          "image/filename=bytes[z.png]", "image/filename=bytes[d/a.png]"));
}

TEST_F(ImagesTest, NumericLabels) {
  Write("in/a.png", Png());
  Write("in/d/b.png", Png());
  auto source = Make({Path("in")}, "id,label\na,4\nd/b.png,2\nother,1\n");
  EXPECT_THAT(Read(*source),
              ElementsAre("image/class/label=int64[4] image/filename=bytes[a.png]",
                          "image/class/label=int64[2] image/filename=bytes[d/b.png]"));
  EXPECT_THAT(source->notes(), ElementsAre(Path("labels.csv") + ": 1 of 3 labels have no image"));
}

TEST_F(ImagesTest, NumericLabelsGetNamesFromTheClassMap) {
  Write("in/a.png", Png());
  EXPECT_THAT(Read(*Make({Path("in")}, "id,label\na,1\n", "cat\ndog\n")),
              ElementsAre("image/class/label=int64[1] image/class/text=bytes[dog] "
                          "image/filename=bytes[a.png]"));
  auto source = Make({Path("in")}, "id,label\na,2\n", "cat\ndog\n");
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(BuildItem(*source, Items(*source)[0]).status(), absl::StatusCode::kDataLoss,
              "in/a.png: its label 2 is not in " + Path("classes"));
}

TEST_F(ImagesTest, ClassNamesAreNumberedByName) {
  Write("in/a.png", Png());
  Write("in/b.png", Png());
  EXPECT_THAT(Read(*Make({Path("in")}, "id,label\na,dog\nb,cat\n")),
              ElementsAre("image/class/label=int64[1] image/class/text=bytes[dog] "
                          "image/filename=bytes[a.png]",
                          "image/class/label=int64[0] image/class/text=bytes[cat] "
                          "image/filename=bytes[b.png]"));
  EXPECT_THAT(Read(*Make({Path("in")}, "id,label\na,dog\nb,cat\n", "{\"dog\":5,\"cat\":9}")),
              ElementsAre("image/class/label=int64[5] image/class/text=bytes[dog] "
                          "image/filename=bytes[a.png]",
                          "image/class/label=int64[9] image/class/text=bytes[cat] "
                          "image/filename=bytes[b.png]"));
}

TEST_F(ImagesTest, DefectsAreTold) {
  std::filesystem::create_directories(Path("in"));
  ExpectError(Scan(*Make({Path("in")})), absl::StatusCode::kDataLoss,
              "in: no images (files named jpg, ");
  Write("in/a.png", Png());
  ExpectError(Scan(*Make({Path("in")}, "id,label\nb,1\n")), absl::StatusCode::kDataLoss,
              "in/a.png: " + Path("labels.csv") + " has no label for \"a.png\"");
  ExpectError(Scan(*Make({Path("in")}, "id,label\na,mouse\n", "cat\n")),
              absl::StatusCode::kDataLoss,
              "labels.csv: the class \"mouse\" is not in " + Path("classes"));
  Write("in/b.png", "");
  ExpectError(Scan(*Make({Path("in")})), absl::StatusCode::kDataLoss,
              "in/b.png: the file is empty; remove it");
  Write("in/b.png", "text");
  auto source = Make({Path("in")});
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(BuildItem(*source, Items(*source)[1]).status(), absl::StatusCode::kDataLoss,
              "in/b.png: ");
  std::filesystem::create_symlink("nowhere", Path("in/c.png"));
  ExpectError(Scan(*Make({Path("in")})), absl::StatusCode::kNotFound,
              "in/c.png: the target of the link does not exist");
  ExpectError(Scan(*Make({Path("none")})), absl::StatusCode::kNotFound, "none: cannot");
  ExpectError(MakeImagesSource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected images or folders, got none");
}

TEST_F(ImagesTest, FoldersThatLookLikeClassesAreNoted) {
  Write("in/cat/a.png", Png());
  Write("in/dog/b.png", Png());
  auto source = Make({Path("in")});
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(),
              ElementsAre(HasSubstr("all images are in folders (cat, dog); if the folders are "
                                    "classes, the kind imagefolder labels the images")));
}

TEST_F(ImagesTest, LinksInACircleAreNotFollowed) {
  Write("in/a.png", Png());
  std::filesystem::create_directory_symlink("..", Path("in/up"));
  std::filesystem::create_directory_symlink(".", Path("in/self"));
  auto source = Make({Path("in")});
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(Read(*source), testing::Contains("image/filename=bytes[a.png]"));
}

class FilesTest : public SourceTest {};

TEST_F(FilesTest, EachFileIsARecord) {
  Write("in/b", "x\0y"s);
  Write("in/a.wav", "");
  Write("in/d/c", "z");
  Write("in/.d/c", "z");
  auto source = *MakeFilesSource({Path("in")});
  EXPECT_THAT(Texts(Convert(*source)),
              ElementsAre("bytes=bytes[] name=bytes[a.wav]", "bytes=bytes[x\0y] name=bytes[b]"s,
                          "bytes=bytes[z] name=bytes[d/c]"));
  EXPECT_EQ(source->num_bytes(), 4);
}

TEST_F(FilesTest, DefectsAreTold) {
  Write("in/.hidden", "x");
  ExpectError(Scan(**MakeFilesSource({Path("in")})), absl::StatusCode::kDataLoss,
              "in: no files (hidden files, named .NAME, are skipped)");
  std::filesystem::create_symlink("nowhere", Path("in/a"));
  ExpectError(Scan(**MakeFilesSource({Path("in")})), absl::StatusCode::kNotFound,
              "in/a: the target of the link does not exist");
  ExpectError(MakeFilesSource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected files or folders, got none");
}

TEST_F(ImagesTest, OtherColumnsAndValuesAreFeatures) {
  Write("in/a.png", Png());
  Write("in/b.png", Png());
  auto source = Make({Path("in")}, "id,label,age\na,0.5,3\nb,2,\n");
  EXPECT_THAT(Read(*source),
              ElementsAre("age=int64[3] image/filename=bytes[a.png] label=float[0.5]",
                          "image/filename=bytes[b.png] label=float[2]"));
  EXPECT_THAT(source->notes(), ElementsAre(HasSubstr("labels are numbers with fractions")));
  EXPECT_TRUE(source->classes().empty());
  ExpectError(Scan(*Make({Path("in")}, "id,label\na,0.5\nb,2\n", "cat\n")),
              absl::StatusCode::kDataLoss,
              Path("labels.csv") + ": labels are numbers with fractions, which " + Path("classes") +
                  " cannot name; leave the class map out");
}

TEST_F(ImagesTest, ClassesHaveNamesAndUnusedOnesAreNoted) {
  Write("in/a.png", Png());
  auto source = Make({Path("in")}, "id,label\na,dog\n", "cat\ndog\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_EQ(source->classes().at("image/class/label"), (ClassNames{{0, "cat"}, {1, "dog"}}));
  EXPECT_THAT(source->notes(),
              ElementsAre(Path("classes") + ": 1 of 2 classes do not occur here: cat"));
  source = Make({Path("in")}, "id,label\na,1\n", "cat\ndog\n");
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_THAT(source->notes(), ElementsAre(HasSubstr("1 of 2 classes do not occur here: cat")));
  source = Make({Path("in")}, "id,label\na,dog\nb,cow\n");
  EXPECT_EQ(source->classes().at("image/class/label"), (ClassNames{{0, "cow"}, {1, "dog"}}));
}

TEST_F(ImagesTest, AColumnNamesTheSplits) {
  for (const char* name : {"in/a.png", "in/b.png", "in/c.png"}) Write(name, Png());
  const auto make = [this](std::string_view labels) {
    ImagesOptions options;
    options.labels = *LabelFile::Read(Write("labels.csv", labels), {.split_column = "split"});
    return *MakeImagesSource({Path("in")}, std::move(options));
  };
  auto source = make("id,label,split\nd,1,test\na,1,val\nb,2,train\nc,3,val\n");
  ASSERT_TRUE(Scan(*source).ok());
  ASSERT_EQ(source->splits().size(), 2);  // no image is in "test"
  EXPECT_EQ(source->splits()[0].name, "val");
  EXPECT_EQ(*source->SplitOf({.bytes = "b.png"}), 1);
  source = make("id,label,split\na,1,val\nb,2,\n");
  ExpectError(Scan(*source), absl::StatusCode::kDataLoss,
              Path("labels.csv") + ":3: no value in \"split\", which names the split");
  uint64_t num_defects = 0;  // b has no split, c no label
  source->SkipDefects([&](const absl::Status&, uint64_t records) { num_defects += records; });
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("a.png")));
  EXPECT_EQ(num_defects, 2);
}

}  // namespace
}  // namespace shardfeed
