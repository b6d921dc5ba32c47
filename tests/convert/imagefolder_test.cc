#include "convert/sources/imagefolder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "decode/images/jpeg/seekable_jpeg.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/convert/source_fixture.h"
#include "tests/decode/jpeg_images.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImageFolderTest : public SourceTest {
 protected:
  static std::unique_ptr<Source> Make(std::vector<std::string> folders,
                                      ImageFolderOptions options = {}) {
    absl::StatusOr<std::unique_ptr<Source>> source =
        MakeImageFolderSource(std::move(folders), std::move(options));
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::unique_ptr<Source> Open(const std::string& folder = "src") { return Make({Path(folder)}); }

  // The smallest image: a GIF's header.
  static std::string Gif(int width, int height) {
    return "GIF89a"s + static_cast<char>(width) + '\0' + static_cast<char>(height) + '\0';
  }
  void WriteImage(std::string_view name) { Write(name, Gif(3, 2)); }
  void Link(std::string_view name, std::string_view target) {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::filesystem::create_symlink(target, Path(name));
  }
  void ExpectScanError(absl::StatusCode code, const std::string& message) {
    ExpectError(Scan(*Open()), code, message);
  }

  // "LABEL CLASS FILENAME" of each record.
  static std::vector<std::string> Names(const std::vector<Example>& examples) {
    std::vector<std::string> names;
    for (const Example& example : examples) {
      const auto& features = example.features().feature();
      names.push_back(std::to_string(features.at("image/class/label").int64_list().value(0)) + " " +
                      features.at("image/class/text").bytes_list().value(0) + " " +
                      features.at("image/filename").bytes_list().value(0));
    }
    return names;
  }
};

TEST_F(ImageFolderTest, EachImageIsARecord) {
  Write("src/cat/1.gif", Gif(7, 5));
  EXPECT_THAT(Texts(Convert(*Open())),
              ElementsAre("image/class/label=int64[0] image/class/text=bytes[cat] "
                          "image/encoded=bytes[" +
                          Gif(7, 5) +
                          "] image/filename=bytes[cat/1.gif] "
                          "image/format=bytes[gif] image/height=int64[5] image/width=int64[7]"));
}

TEST_F(ImageFolderTest, SortsClassesAndImagesByBytes) {
  for (const char* name : {"src/b/2.gif", "src/b/10.gif", "src/b/1/z.gif", "src/B/x.gif",
                           "src/\u00e4/x.gif", "src/a b/x.gif", "src/b/1.gif"}) {
    WriteImage(name);
  }
  EXPECT_THAT(Names(Convert(*Open())),
              ElementsAre("0 B B/x.gif", "1 a b a b/x.gif", "2 b b/1/z.gif", "2 b b/1.gif",
                          "2 b b/10.gif", "2 b b/2.gif", "3 \u00e4 \u00e4/x.gif"));
}

TEST_F(ImageFolderTest, KnowsImagesByTheirSuffixInAnyCase) {
  for (const char* name :
       {"a.jpg", "b.JPEG", "c.Png", "d.bmp", "e.webp", "f.GIF", "g.tif", "h.tiff", "i.x.jpg"}) {
    WriteImage("src/c/"s + name);
  }
  for (const char* name : {"x.txt", "jpg", "x.jpgg", "x.jpg.part", "x.svg"}) {
    WriteImage("src/c/"s + name);
  }
  auto source = Open();
  EXPECT_EQ(Convert(*source).size(), 9);
  EXPECT_THAT(source->notes(),
              ElementsAre("skipped 5 files not named like an image: " + Path("src/c/jpg") + ", " +
                          Path("src/c/x.jpg.part") + ", " + Path("src/c/x.jpgg") + ", ..."));
}

TEST_F(ImageFolderTest, TheFormatIsThatOfTheBytes) {
  WriteImage("src/c/really_a_gif.jpg");
  const std::vector<Example> examples = Convert(*Open());
  EXPECT_THAT(Texts(examples)[0], HasSubstr("image/format=bytes[gif]"));
}

TEST_F(ImageFolderTest, MakesJpegsSeekable) {
  const std::string jpeg = testing::MakeJpeg({.width = 100, .height = 80});
  Write("src/c/1.jpg", jpeg);
  Write("src/c/2.jpg", jpeg.substr(0, jpeg.size() / 2));
  WriteImage("src/c/3.gif");
  auto source = Open();
  const std::vector<Example> examples = Convert(*source);
  ASSERT_EQ(examples.size(), 3);
  const auto encoded = [&](int i) {
    return examples[i].features().feature().at("image/encoded").bytes_list().value(0);
  };
  EXPECT_TRUE(IsSeekable(encoded(0)));
  EXPECT_TRUE(testing::Coefficients(encoded(0)) == testing::Coefficients(jpeg));
  EXPECT_TRUE(encoded(1) == jpeg.substr(0, jpeg.size() / 2));
  EXPECT_TRUE(encoded(2) == Gif(3, 2));
  EXPECT_THAT(source->notes(), IsEmpty());
  EXPECT_THAT(source->built_notes(),
              ElementsAre("1 JPEG was rewritten losslessly to be seekable",
                          AllOf(HasSubstr("1 damaged JPEG was kept: " + Path("src/c/2.jpg")),
                                HasSubstr("JPEG is cut off: the file ends after"))));
}

TEST_F(ImageFolderTest, KeepsJpegsWhereAskedTo) {
  const std::string jpeg = testing::MakeJpeg({.width = 100, .height = 80});
  Write("src/c/1.jpg", jpeg);
  Write("src/c/2.jpg", jpeg.substr(0, jpeg.size() / 2));
  auto source = Make({Path("src")}, {.images = {.jpeg = JpegMode::kKeep}});
  const std::vector<Example> examples = Convert(*source);
  ASSERT_EQ(examples.size(), 2);
  EXPECT_TRUE(examples[0].features().feature().at("image/encoded").bytes_list().value(0) == jpeg);
  EXPECT_THAT(source->built_notes(), IsEmpty());
}

TEST_F(ImageFolderTest, PassesOverHiddenNames) {
  WriteImage("src/c/1.gif");
  WriteImage("src/c/.2.gif");
  WriteImage("src/c/.thumbs/3.gif");
  WriteImage("src/.git/4.gif");
  auto source = Open();
  EXPECT_THAT(Names(Convert(*source)), ElementsAre("0 c c/1.gif"));
  EXPECT_THAT(source->notes(), IsEmpty());
}

TEST_F(ImageFolderTest, NotesImagesOutsideTheClasses) {
  WriteImage("src/c/1.gif");
  WriteImage("src/stray.gif");
  Write("src/labels.txt", "x");
  auto source = Open();
  EXPECT_EQ(Convert(*source).size(), 1);
  EXPECT_THAT(source->notes(),
              ElementsAre("skipped 1 file not named like an image: " + Path("src/labels.txt"),
                          "skipped 1 image outside the class folders: " + Path("src/stray.gif")));
}

TEST_F(ImageFolderTest, NotesThatTheClassesMayBeOneLevelDeeper) {
  WriteImage("src/train/cat/1.gif");
  WriteImage("src/val/cat/2.gif");
  auto source = Open();
  EXPECT_EQ(Convert(*source).size(), 2);
  EXPECT_THAT(
      source->notes(),
      ElementsAre(HasSubstr("the folders taken for classes (train, val) contain only folders")));
}

TEST_F(ImageFolderTest, MergesTheClassesOfSeveralSources) {
  WriteImage("one/cat/1.gif");
  WriteImage("one/dog/1.gif");
  WriteImage("two/bee/1.gif");
  WriteImage("two/cat/1.gif");
  auto source = Make({Path("one"), Path("two") + "//"});
  EXPECT_THAT(Names(Convert(*source)), ElementsAre("0 bee bee/1.gif", "1 cat cat/1.gif",
                                                   "1 cat cat/1.gif", "2 dog dog/1.gif"));
  EXPECT_EQ(source->num_bytes(), 40);
}

TEST_F(ImageFolderTest, FollowsLinks) {
  WriteImage("elsewhere/1.gif");
  Link("src/cat", Path("elsewhere"));
  Link("src/dog/2.gif", Path("elsewhere/1.gif"));
  EXPECT_THAT(Names(Convert(*Open())), ElementsAre("0 cat cat/1.gif", "1 dog dog/2.gif"));
}

TEST_F(ImageFolderTest, DoesNotFollowLinksInCircles) {
  WriteImage("src/a/1.gif");
  WriteImage("src/b/2.gif");
  Link("src/a/again", "../a");
  Link("src/a/all", "..");
  Link("src/a/sub/b", "../../b");
  Link("src/b/a", "../a");
  auto source = Open();
  EXPECT_THAT(Names(Convert(*source)),
              ElementsAre("0 a a/1.gif", "0 a a/sub/b/2.gif", "1 b b/2.gif", "1 b b/a/1.gif"));
  EXPECT_THAT(source->notes(),
              ElementsAre(HasSubstr("skipped 6 links to a folder that contains the link")));
}

TEST_F(ImageFolderTest, NamesALinkThatLeadsNowhere) {
  WriteImage("src/a/1.gif");
  Link("src/a/2.gif", "no such file");
  ExpectScanError(absl::StatusCode::kNotFound,
                  "src/a/2.gif: the target of the link does not exist");
}

TEST_F(ImageFolderTest, NamesALinkToItself) {
  Link("src/a/2.gif", "2.gif");
  ExpectScanError(absl::StatusCode::kNotFound,
                  "src/a/2.gif: the target of the link does not exist");
}

TEST_F(ImageFolderTest, SkipsPipes) {
  WriteImage("src/a/1.gif");
  ASSERT_EQ(mkfifo(Path("src/a/2.gif").c_str(), 0600), 0);
  auto source = Open();
  EXPECT_THAT(Names(Convert(*source)), ElementsAre("0 a a/1.gif"));
  EXPECT_THAT(source->notes(), ElementsAre(HasSubstr("skipped 1 file")));
}

TEST_F(ImageFolderTest, RefusesASourceThatIsMissingOrAFile) {
  ExpectScanError(absl::StatusCode::kNotFound, "src: cannot open the folder: No such file");
  Write("src", "x");
  ExpectScanError(
      absl::StatusCode::kFailedPrecondition,
      "src: not a folder; expected one folder per class, as in " + Path("src/cat/1.jpg"));
}

TEST_F(ImageFolderTest, SaysWhichLayoutIsWanted) {
  std::filesystem::create_directories(Path("src"));
  ExpectScanError(absl::StatusCode::kDataLoss,
                  "src: the folder is empty; expected one folder per class, as in ");
  Write("src/x.txt", "x");
  ExpectScanError(absl::StatusCode::kDataLoss,
                  "src: the folder contains no folders; expected one folder per");
  for (const char* name : {"src/1.gif", "src/2.gif", "src/3.gif", "src/4.gif"}) WriteImage(name);
  ExpectScanError(
      absl::StatusCode::kDataLoss,
      "src: 4 images in no class folder: 1.gif, 2.gif, 3.gif, ...; expected one folder per");
}

TEST_F(ImageFolderTest, NamesAClassWithoutImages) {
  WriteImage("src/a/1.gif");
  Write("src/b/readme.txt", "x");
  ExpectScanError(absl::StatusCode::kDataLoss,
                  "src/b: the folder of this class has no images (files named jpg, jpeg, png, bmp, "
                  "webp, gif, tif, tiff, avif, heic, heif, jxl)");
}

TEST_F(ImageFolderTest, NamesAClassWhoseNameIsNotUtf8) {
  WriteImage("src/caf\xe9/1.gif");
  ExpectScanError(absl::StatusCode::kDataLoss,
                  R"(src: the name of the folder "caf\xe9" is not UTF-8; rename it)");
}

TEST_F(ImageFolderTest, NamesAnEmptyImage) {
  WriteImage("src/a/1.gif");
  Write("src/a/2.gif", "");
  ExpectScanError(absl::StatusCode::kDataLoss, "src/a/2.gif: the file is empty");
}

TEST_F(ImageFolderTest, NamesAnImageThatIsNone) {
  Write("src/a/1.jpg", "<html>404</html>");
  auto source = Open();
  ASSERT_TRUE(Scan(*source).ok());
  ExpectError(BuildItem(*source, Items(*source)[0]).status(), absl::StatusCode::kDataLoss,
              "src/a/1.jpg: not an image: starts with \"<html>404</html>\"");
}

TEST_F(ImageFolderTest, NamesWhatCannotBeRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  WriteImage("src/a/1.gif");
  auto source = Open();
  ASSERT_TRUE(Scan(*source).ok());
  const std::vector<Kept> items = Items(*source);
  chmod(Path("src/a/1.gif").c_str(), 0);
  ExpectError(BuildItem(*source, items[0]).status(), absl::StatusCode::kPermissionDenied,
              "src/a/1.gif: cannot open");
  chmod(Path("src/a").c_str(), 0);
  ExpectScanError(absl::StatusCode::kPermissionDenied, "src/a: cannot open the folder");
  chmod(Path("src/a").c_str(), 0700);
}

TEST_F(ImageFolderTest, NoticesThatAFolderChanged) {
  WriteImage("src/a/1.gif");
  WriteImage("src/a/2.gif");
  auto source = Open();
  ASSERT_TRUE(Scan(*source).ok());
  const std::vector<Kept> items = Items(*source);
  const auto ignore = [](const Item&) { return absl::OkStatus(); };
  std::filesystem::remove(Path("src/a/2.gif"));
  ExpectError(source->ForEach(ignore), absl::StatusCode::kFailedPrecondition,
              "src/a: changed while it was being read: 2 images at first, then 1");
  ExpectError(BuildItem(*source, items[1]).status(), absl::StatusCode::kNotFound,
              "src/a/2.gif: cannot open: No such file");
}

TEST_F(ImageFolderTest, StopsAtTheFirstErrorOfTheSink) {
  WriteImage("src/a/1.gif");
  WriteImage("src/b/2.gif");
  auto source = Open();
  ASSERT_TRUE(Scan(*source).ok());
  int calls = 0;
  ExpectError(source->ForEach([&](const Item&) {
    ++calls;
    return absl::UnavailableError("full");
  }),
              absl::StatusCode::kUnavailable, "full");
  EXPECT_EQ(calls, 1);
}

TEST_F(ImageFolderTest, StopsWhenAskedTo) {
  WriteImage("src/a/1.gif");
  std::stop_source stop;
  stop.request_stop();
  ExpectError(Open()->Scan(stop.get_token(), {}), absl::StatusCode::kCancelled, "interrupted");
}

TEST_F(ImageFolderTest, RefusesNoFolders) {
  ExpectError(MakeImageFolderSource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected folders of images");
}

TEST_F(ImageFolderTest, BuildsOnSeveralThreads) {
  for (int i = 0; i < 50; ++i) {
    // Sizes go up and down to exercise the buffer that a thread reuses.
    Write("src/" + std::to_string(i % 3) + "/" + std::to_string(i) + ".gif",
          Gif(i + 1, 2) + std::string((i * 7919) % 5000, 'x'));
  }
  auto source = Open();
  ASSERT_TRUE(Scan(*source).ok());
  const std::vector<Kept> items = Items(*source);
  const std::vector<std::string> expected = Texts(Convert(*source));
  std::vector<std::vector<std::string>> found(4);
  std::vector<std::thread> threads;
  for (std::vector<std::string>& texts : found) {
    threads.emplace_back([&] {
      for (const Kept& item : items) texts.push_back(Text(*BuildItem(*source, item)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string>& texts : found) EXPECT_EQ(texts, expected);
}

TEST_F(ImageFolderTest, ClassesAreThoseOfTheMap) {
  WriteImage("src/dog/1.gif");
  const std::string path = Write("classes", "cat\ndog\n");
  auto source = Make({Path("src")}, {.classes = *ClassMap::Read(path)});
  EXPECT_THAT(Names(Convert(*source)), ElementsAre("1 dog dog/1.gif"));
  EXPECT_EQ(source->classes().at("image/class/label"), (ClassNames{{0, "cat"}, {1, "dog"}}));
  EXPECT_THAT(source->notes(), ElementsAre(path + ": 1 of 2 classes do not occur here: cat"));
  source = Open();
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_EQ(source->classes().at("image/class/label"), (ClassNames{{0, "dog"}}));
  WriteImage("src/cow/1.gif");
  ExpectError(Scan(*Make({Path("src")}, {.classes = *ClassMap::Read(path)})),
              absl::StatusCode::kDataLoss,
              "src/cow: this class is not in " + path + "; add it there, or leave it out");
}

}  // namespace
}  // namespace shardfeed
