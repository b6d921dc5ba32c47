#include "decode/images/image_check.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardfeed/examples.h"
#include "tests/decode/jpeg_images.h"

// GDAL, which OpenCV calls for bytes that are no image it knows, takes two of its locks in either
// order.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "deadlock:libgdal"; }

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeJpeg;
using ::testing::Pair;
using ::testing::StartsWith;

std::string Record(const std::vector<std::pair<std::string, std::string>>& features) {
  ExampleBuilder builder;
  for (const auto& [name, value] : features) builder.AddBytes(name, value);
  std::string record;
  builder.SerializeExample(&record);
  return record;
}

std::vector<std::string> Check(ImageCheck& check, const std::string& record) {
  std::vector<std::string> defects;
  EXPECT_TRUE(check.CheckRecord(record, &defects).ok());
  return defects;
}

// A GIF of one black pixel.
const std::string kGif = "GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"s;

TEST(ImageCheckTest, SoundImagesOfAllKinds) {
  ImageCheck check;
  uint64_t sound = 0;
  for (const auto& sampling : {std::vector<std::pair<int, int>>{{1, 1}},
                               {{2, 2}, {1, 1}, {1, 1}},
                               {{1, 1}, {1, 1}, {1, 1}},
                               {{1, 1}, {1, 1}, {1, 1}, {1, 1}}}) {
    for (int width : {1, 7, 100}) {
      for (bool progressive : {false, true}) {
        for (int restart_interval : {0, 3}) {
          const std::string jpeg = MakeJpeg({.width = width,
                                             .height = 61,
                                             .sampling = sampling,
                                             .progressive = progressive,
                                             .restart_interval = restart_interval});
          EXPECT_THAT(Check(check, Record({{"image/encoded", jpeg}})), IsEmpty());
          ++sound;
        }
      }
    }
  }
  EXPECT_EQ(check.counts().sound, sound);
  EXPECT_EQ(check.counts().broken, 0);
  EXPECT_THAT(check.counts().not_decoded, IsEmpty());
}

TEST(ImageCheckTest, ImagesAreFoundByTheirBytesAndByTheirNames) {
  const std::string jpeg = MakeJpeg({.width = 60, .height = 50});
  ImageCheck check;
  EXPECT_THAT(Check(check, Record({{"x", jpeg}, {"z", "text"}, {"bytes", ""}})), IsEmpty());
  EXPECT_EQ(check.counts().sound, 1);
  EXPECT_THAT(
      Check(check, Record({{"jpg", ""}, {"seg.png", "text"}, {"image/encoded", "text"}})),
      ElementsAre(StartsWith("image/encoded: "), StartsWith("jpg: "), StartsWith("seg.png: ")));
  EXPECT_EQ(check.counts().broken, 3);
}

TEST(ImageCheckTest, OtherFormatsAreDecoded) {
  ImageCheck check;
  EXPECT_THAT(Check(check, Record({{"x", kGif}})), IsEmpty());
  EXPECT_EQ(check.counts().sound, 1);
  EXPECT_THAT(Check(check, Record({{"x", kGif.substr(0, 20)}})), ElementsAre(StartsWith("x: ")));
  const std::string png = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\3\0\0\0\4\x08\2\0\0\0"s;
  EXPECT_THAT(Check(check, Record({{"x", png}})), ElementsAre(StartsWith("x: ")));
  EXPECT_EQ(check.counts().broken, 2);
}

TEST(ImageCheckTest, TwoBytesAloneAreNoJpegXl) {
  // 8 x 8 pixels of which nothing follows.
  const std::string codestream = "\xff\x0a\x41\x06"s;
  ImageCheck check;
  EXPECT_THAT(Check(check, Record({{"x", codestream}})), IsEmpty());
  EXPECT_EQ(check.counts().sound + check.counts().broken, 0);
  const std::string container = "\0\0\0\x0cJXL \r\n\x87\n\0\0\0\0jxlc"s + codestream;
  const std::vector<std::string> defects =
      Check(check, Record({{"jxl", codestream}, {"x", container}}));
  // Without libjxl, they count as not decoded.
  uint64_t not_decoded = 0;
  for (const auto& [why, count] : check.counts().not_decoded) not_decoded += count;
  EXPECT_TRUE(defects.size() == 2 || not_decoded == 3) << defects.size() << " " << not_decoded;
}

TEST(ImageCheckTest, WhatIsCutOffIsBroken) {
  for (bool progressive : {false, true}) {
    const std::string jpeg =
        MakeJpeg({.width = 90, .height = 70, .progressive = progressive, .restart_interval = 2});
    ImageCheck check;
    uint64_t broken = 0;
    for (size_t size = 3; size < jpeg.size(); size += 13) {
      EXPECT_THAT(Check(check, Record({{"image/encoded", jpeg.substr(0, size)}})),
                  ElementsAre(StartsWith("image/encoded: ")))
          << size;
      ++broken;
    }
    EXPECT_EQ(check.counts().broken, broken);
  }
}

TEST(ImageCheckTest, BrokenIsWhatLibjpegWarnsAbout) {
  const std::string jpeg = MakeJpeg({.width = 90, .height = 70});
  ImageCheck check;
  uint64_t found = 0;
  for (size_t at = 2; at < jpeg.size(); at += 3) {
    std::string damaged = jpeg;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const testing::Pixels pixels = testing::DecodeByLibjpeg(damaged);
    const bool sound = Check(check, Record({{"image/encoded", damaged}})).empty();
    EXPECT_EQ(sound, pixels.error.empty() && pixels.warnings == 0) << at;
    found += sound ? 0 : 1;
  }
  EXPECT_GT(found, 10);
}

TEST(ImageCheckTest, WhatCannotBeDecodedIsCounted) {
  // 12-bit samples, which baseline JPEGs (SOF0) do not have.
  std::string jpeg = MakeJpeg({.width = 16, .height = 16});
  const size_t sof = testing::FindMarker(jpeg, 0xc0);
  jpeg[sof + 4] = 12;
  ImageCheck baseline;
  EXPECT_THAT(Check(baseline, Record({{"image/encoded", jpeg}})),
              ElementsAre(HasSubstr("samples of 12 bits")));
  EXPECT_EQ(baseline.counts().broken, 1);
  EXPECT_THAT(baseline.counts().not_decoded, IsEmpty());
  jpeg[sof + 1] = '\xc1';
  ImageCheck check;
  EXPECT_THAT(Check(check, Record({{"image/encoded", jpeg}})), IsEmpty());
  EXPECT_EQ(check.counts().sound + check.counts().broken, 0);
  EXPECT_THAT(check.counts().not_decoded, ElementsAre(Pair(StartsWith("jpeg: "), 1)));
}

TEST(ImageCheckTest, FormatsThatAreNotSupportedAreNotDamage) {
  const std::string ppm = "P6\n1 1\n255\nabc";
  const std::string jp2 = "\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14"s + "ftypjp2 ";
  ImageCheck check;
  EXPECT_THAT(Check(check, Record({{"image/encoded", ppm}, {"a.jpg", jp2}, {"text", ppm}})),
              IsEmpty());
  EXPECT_EQ(check.counts().sound + check.counts().broken, 0);
  constexpr char kWhy[] = "which is not supported; convert it to JPEG or PNG";
  EXPECT_THAT(check.counts().not_decoded, ElementsAre(Pair("JPEG 2000, "s + kWhy, 1),
                                                      Pair("PNM (PBM, PGM or PPM), "s + kWhy, 1)));
}

TEST(ImageCheckTest, WhatIsNoExampleHasNoImages) {
  const std::string record = Record({{"image/encoded", "text"}});
  ImageCheck check;
  EXPECT_THAT(Check(check, ""), IsEmpty());
  EXPECT_THAT(Check(check, "\xff\xd8\xff"), IsEmpty());
  for (size_t size = 0; size < record.size(); ++size) Check(check, record.substr(0, size));
  EXPECT_EQ(check.counts().sound, 0);
}

TEST(ImageCheckTest, ChecksOnSeveralThreads) {
  const std::string sound = Record({{"image/encoded", MakeJpeg({.width = 60, .height = 50})}});
  const std::string cut =
      Record({{"image/encoded", MakeJpeg({.width = 60, .height = 50}).substr(0, 700)}});
  ImageCheck check;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_THAT(Check(check, sound), IsEmpty());
        EXPECT_THAT(Check(check, cut), ElementsAre(HasSubstr("JPEG is cut off")));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(check.counts().sound, 40);
  EXPECT_EQ(check.counts().broken, 40);
}

}  // namespace
}  // namespace shardfeed
