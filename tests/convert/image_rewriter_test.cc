#include "convert/features/image_rewriter.h"

#include <string>
#include <thread>
#include <vector>

#include "decode/images/jpeg/seekable_jpeg.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/decode/jpeg_images.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using testing::MakeJpeg;
using ::testing::StartsWith;

std::string Rewrite(const ImageRewriter& rewriter, const std::string& name,
                    const std::string& bytes) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes);
  EXPECT_TRUE(header.ok()) << header.status();
  const absl::StatusOr<StoredImage> stored = rewriter.Rewrite(name, *header, bytes);
  EXPECT_TRUE(stored.ok()) << stored.status();
  return std::string(stored->bytes);
}

TEST(ImageRewriterTest, CountsWhatBecomesOfEach) {
  const ImageRewriter rewriter({});
  EXPECT_THAT(rewriter.notes(), IsEmpty());
  const std::string plain = MakeJpeg({.width = 100, .height = 80});
  const std::string seekable = Rewrite(rewriter, "a.jpg", plain);
  EXPECT_TRUE(IsSeekable(seekable));
  Rewrite(rewriter, "b.jpg", plain);
  EXPECT_EQ(Rewrite(rewriter, "c.jpg", seekable), seekable);
  const std::string arithmetic = MakeJpeg({.width = 100, .height = 80, .arithmetic = true});
  EXPECT_EQ(Rewrite(rewriter, "d.jpg", arithmetic), arithmetic);
  const std::string cut = plain.substr(0, 700);
  EXPECT_EQ(Rewrite(rewriter, "z.jpg", cut), cut);
  EXPECT_EQ(Rewrite(rewriter, "e.jpg", cut), cut);
  EXPECT_EQ(Rewrite(rewriter, "f.gif", "GIF89a\1\1\1\1"), "GIF89a\1\1\1\1");
  const std::string what = "(JPEG is cut off: the file ends after 700 bytes, before its image)";
  EXPECT_THAT(rewriter.notes(),
              ElementsAre("2 JPEGs were rewritten losslessly to be seekable",
                          "1 JPEG was kept: already seekable", "1 JPEG was kept: arithmetic coding",
                          "2 damaged JPEGs were kept: e.jpg " + what + ", z.jpg " + what));
}

TEST(ImageRewriterTest, KeepsAllBytesWhereAskedTo) {
  const ImageRewriter rewriter({.jpeg = JpegMode::kKeep});
  const std::string plain = MakeJpeg({.width = 100, .height = 80});
  EXPECT_EQ(Rewrite(rewriter, "a.jpg", plain), plain);
  EXPECT_THAT(rewriter.notes(), IsEmpty());
}

TEST(ImageRewriterTest, NamesTheFirstOfManyDamagedInAnyOrder) {
  const std::string cut = MakeJpeg({.width = 100, .height = 80}).substr(0, 700);
  std::vector<std::vector<std::string>> notes;
  for (int step : {1, 149}) {
    const ImageRewriter rewriter({});
    for (int i = 0; i < 150; ++i) {
      Rewrite(rewriter, fmt::format("{:03}.jpg", i * step % 150), cut);
    }
    notes.push_back(rewriter.notes());
  }
  EXPECT_EQ(notes[0], notes[1]);
  EXPECT_THAT(notes[0], ElementsAre(StartsWith("150 damaged JPEGs were kept: 000.jpg (JPEG is")));
  EXPECT_THAT(notes[0], ElementsAre(EndsWith("before its image), ...")));
  EXPECT_THAT(notes[0], ElementsAre(::testing::HasSubstr("099.jpg")));
  EXPECT_THAT(notes[0], ElementsAre(::testing::Not(::testing::HasSubstr("100.jpg"))));
}

TEST(ImageRewriterTest, ShrinksWhatIsLarger) {
  const ImageRewriter rewriter({.resize_shorter = 60, .quality = 80});
  const std::string large = MakeJpeg({.width = 100, .height = 80});
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(large);
  const absl::StatusOr<StoredImage> stored = rewriter.Rewrite("a.jpg", *header, large);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->header.width, 75);
  EXPECT_EQ(stored->header.height, 60);
  EXPECT_EQ(ReadImageHeader(stored->bytes)->width, 75);
  EXPECT_TRUE(IsSeekable(stored->bytes));
  const std::string small = MakeJpeg({.width = 100, .height = 60});
  EXPECT_TRUE(testing::Coefficients(Rewrite(rewriter, "b.jpg", small)) ==
              testing::Coefficients(small));
  const std::string cut = large.substr(0, large.size() / 2);
  EXPECT_EQ(Rewrite(rewriter, "c.jpg", cut), cut);
  const std::string gif = std::string("GIF89a\x50\0\x50\0", 10);
  EXPECT_EQ(Rewrite(rewriter, "d.gif", gif), gif);
  EXPECT_THAT(rewriter.notes(),
              ElementsAre("1 JPEG was shrunk to a shorter side of 60 pixels, quality 80",
                          "1 larger image was kept: only JPEGs are shrunk",
                          "1 JPEG was rewritten losslessly to be seekable",
                          StartsWith("1 damaged JPEG was kept: c.jpg (JPEG is cut off")));
}

TEST(ImageRewriterTest, ShrinksWithoutRestartsWhereJpegsAreKept) {
  const ImageRewriter rewriter({.jpeg = JpegMode::kKeep, .resize_shorter = 60});
  const std::string large = MakeJpeg({.width = 100, .height = 80});
  EXPECT_FALSE(IsSeekable(Rewrite(rewriter, "a.jpg", large)));
  const std::string small = MakeJpeg({.width = 100, .height = 60});
  EXPECT_TRUE(Rewrite(rewriter, "b.jpg", small) == small);
}

TEST(ImageRewriterTest, CountsOnSeveralThreads) {
  const ImageRewriter rewriter({});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&rewriter, t] {
      for (uint32_t i = 0; i < 10; ++i) {
        const std::string jpeg =
            MakeJpeg({.width = 100 + t, .height = 80, .arithmetic = i % 5 == 0, .seed = i});
        const std::string stored = Rewrite(rewriter, "x.jpg", jpeg);
        EXPECT_EQ(IsSeekable(stored), i % 5 != 0);
        EXPECT_TRUE(testing::Coefficients(stored) == testing::Coefficients(jpeg));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(rewriter.notes(), ElementsAre("32 JPEGs were rewritten losslessly to be seekable",
                                            "8 JPEGs were kept: arithmetic coding"));
}

}  // namespace
}  // namespace shardfeed
