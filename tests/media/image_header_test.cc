#include "media/image_header.h"

#include <cstdint>
#include <memory>
#include <opencv2/imgcodecs.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

// OpenCV treats qualities above 100 as lossless.
const std::vector<int> kLossyWebp = {cv::IMWRITE_WEBP_QUALITY, 80};
const std::vector<int> kLosslessWebp = {cv::IMWRITE_WEBP_QUALITY, 101};

std::string Encode(const std::string& suffix, int height, int width, int type = CV_8UC3,
                   const std::vector<int>& options = {}) {
  cv::Mat image(height, width, type);
  cv::randu(image, 0, 255);
  std::vector<unsigned char> bytes;
  EXPECT_TRUE(cv::imencode(suffix, image, bytes, options));
  return std::string(bytes.begin(), bytes.end());
}

// Reads from memory of exactly this size, so that AddressSanitizer detects any read past the end.
absl::StatusOr<ImageHeader> Read(const std::string& bytes) {
  const std::unique_ptr<char[]> exact(new char[bytes.size()]);
  bytes.copy(exact.get(), bytes.size());
  return ReadImageHeader({exact.get(), bytes.size()});
}

void ExpectHeader(const std::string& bytes, std::string_view format, uint32_t height,
                  uint32_t width, uint32_t channels) {
  const absl::StatusOr<ImageHeader> header = Read(bytes);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->format, format);
  EXPECT_EQ(header->height, height);
  EXPECT_EQ(header->width, width);
  EXPECT_EQ(header->channels, channels);
}

void ExpectError(const std::string& bytes, const std::string& message) {
  const absl::StatusOr<ImageHeader> header = Read(bytes);
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(header.status().message()), HasSubstr(message));
}

std::string Gif(int width, int height) {
  std::string bytes = "GIF89a";
  for (int size : {width, height}) {
    bytes.push_back(static_cast<char>(size));
    bytes.push_back(static_cast<char>(size >> 8));
  }
  return bytes + "\x80\0\0"s;
}

// A JPEG's start: SOI, then a frame header of kind `sof`.
std::string Jpeg(char sof, int height, int width, const std::string& before = "") {
  return "\xff\xd8"s + before + "\xff"s + sof + "\0\x0b\x08"s + static_cast<char>(height >> 8) +
         static_cast<char>(height) + static_cast<char>(width >> 8) + static_cast<char>(width) +
         "\x01\x01\x11\0"s;
}

std::string Patched(std::string bytes, size_t offset, const std::string& patch) {
  return bytes.replace(offset, patch.size(), patch);
}

TEST(ImageHeaderTest, AgreesWithOpenCvOnEverySize) {
  for (int height : {1, 2, 7, 8, 15, 16, 17, 255, 256, 300}) {
    for (int width : {1, 3, 8, 16, 31, 255, 256, 257, 1000}) {
      ExpectHeader(Encode(".jpg", height, width), "jpeg", height, width, 3);
      ExpectHeader(Encode(".png", height, width), "png", height, width, 3);
      ExpectHeader(Encode(".bmp", height, width), "bmp", height, width, 3);
      ExpectHeader(Encode(".tiff", height, width), "tiff", height, width, 3);
    }
  }
  for (int height : {1, 17, 300}) {
    for (int width : {1, 31, 257}) {
      for (const std::vector<int>& options : {kLossyWebp, kLosslessWebp}) {
        ExpectHeader(Encode(".webp", height, width, CV_8UC3, options), "webp", height, width, 3);
        ExpectHeader(Encode(".webp", height, width, CV_8UC4, options), "webp", height, width, 4);
      }
    }
  }
}

TEST(ImageHeaderTest, TellsChannels) {
  ExpectHeader(Encode(".jpg", 5, 9, CV_8UC1), "jpeg", 5, 9, 1);
  ExpectHeader(Encode(".png", 5, 9, CV_8UC1), "png", 5, 9, 1);
  ExpectHeader(Encode(".png", 5, 9, CV_8UC4), "png", 5, 9, 4);
  ExpectHeader(Encode(".png", 5, 9, CV_16UC3), "png", 5, 9, 3);
  ExpectHeader(Encode(".tiff", 5, 9, CV_8UC1), "tiff", 5, 9, 1);
  ExpectHeader(Encode(".tiff", 5, 9, CV_8UC4), "tiff", 5, 9, 4);
  // Gray BMP has a palette.
  ExpectHeader(Encode(".bmp", 5, 9, CV_8UC1), "bmp", 5, 9, 0);
}

TEST(ImageHeaderTest, ReadsProgressiveJpegAndRestartIntervals) {
  ExpectHeader(Encode(".jpg", 40, 50, CV_8UC3, {cv::IMWRITE_JPEG_PROGRESSIVE, 1}), "jpeg", 40, 50,
               3);
  ExpectHeader(Encode(".jpg", 40, 50, CV_8UC3, {cv::IMWRITE_JPEG_RST_INTERVAL, 2}), "jpeg", 40, 50,
               3);
}

TEST(ImageHeaderTest, ReadsEveryKindOfJpegFrame) {
  for (int sof : {0xc0, 0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf}) {
    ExpectHeader(Jpeg(static_cast<char>(sof), 300, 65535), "jpeg", 300, 65535, 1);
  }
  for (const auto& [sof, bits] :
       {std::pair('\xc0', 8), {'\xc1', 12}, {'\xc2', 12}, {'\xc3', 2}, {'\xc7', 16}}) {
    ExpectHeader(Patched(Jpeg(sof, 3, 4), 6, {static_cast<char>(bits)}), "jpeg", 3, 4, 1);
  }
}

TEST(ImageHeaderTest, SkipsJpegSegmentsAndFillBytes) {
  // A comment that contains what looks like a frame header, and fill bytes before the real one.
  const std::string comment = "\xff\xfe\0\x0d\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01"s;
  ExpectHeader(Jpeg('\xc0', 20, 30, comment + "\xff\xff\xff"s), "jpeg", 20, 30, 1);
}

TEST(ImageHeaderTest, ReadsGif) {
  ExpectHeader(Gif(300, 1), "gif", 1, 300, 0);
  ExpectHeader(Gif(1, 65535), "gif", 65535, 1, 0);
  ExpectHeader("GIF87a\x02\0\x03\0"s, "gif", 3, 2, 0);
}

TEST(ImageHeaderTest, ReadsTopDownAndOs2Bmp) {
  const std::string bmp = Encode(".bmp", 4, 6);
  ExpectHeader(Patched(bmp, 22, "\xfc\xff\xff\xff"), "bmp", 4, 6, 3);
  ExpectHeader("BM"s + std::string(12, '\0') + "\x0c\0\0\0\x2c\x01\x02\0\x01\0\x18\0"s, "bmp", 2,
               300, 3);
}

TEST(ImageHeaderTest, ReadsExtendedWebp) {
  ExpectHeader("RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\xff\x3f\0\x09\0\x01"s, "webp", 65546,
               16384, 4);
}

TEST(ImageHeaderTest, ReadsBigEndianAndBigTiff) {
  const std::string entry_width = "\x01\0\0\x03\0\0\0\x01\x01\x2c\0\0"s;
  const std::string entry_height = "\x01\x01\0\x04\0\0\0\x01\0\0\0\x02"s;
  ExpectHeader("MM\0*\0\0\0\x08\0\x02"s + entry_width + entry_height, "tiff", 2, 300, 1);
  const std::string big_width = "\0\x01\x10\0\x01\0\0\0\0\0\0\0\x2c\x01\0\0\0\0\0\0"s;
  const std::string big_height = "\x01\x01\x03\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"s;
  ExpectHeader("II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"s + big_width + big_height,
               "tiff", 2, 300, 1);
}

TEST(ImageHeaderTest, SaysWhatAFileThatIsNoImageStartsWith) {
  ExpectError("", "the file is empty");
  ExpectError("<!DOCTYPE html><html>", "not an image: starts with \"<!DOCTYPE html><\"");
  ExpectError("\x01\x02\xfe\n"s, "not an image: starts with bytes 01 02 fe 0a");
  ExpectError("BMW is a car, not an image", "not an image: starts like BMP");
  ExpectError("RIFF\0\0\0\0WAVEfmt "s, "not an image: starts with bytes 52 49 46 46");
  ExpectError("\0\0\0\x1c"s + "ftypheic\0\0\0\0"s, "HEIC is cut off or damaged: it has no header");
}

TEST(ImageHeaderTest, SaysWhichFormatIsNotSupported) {
  const auto padded = [](std::string bytes) {
    bytes.resize(200);
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> files = {
      {"\0\0\0\x0cjP  \r\n\x87\n"s, "JPEG 2000"},
      {"\xff\x4f\xff\x51\0\x2f"s, "JPEG 2000"},
      {"II\xbc\x01\x20\0\0\0"s, "JPEG XR"},
      {"DDS \x7c\0\0\0"s, "DDS"},
      {"8BPS\0\1"s, "PSD"},
      {"v/1\x01\2\0\0\0"s, "OpenEXR"},
      {"#?RADIANCE\nFORMAT"s, "Radiance HDR"},
      {"qoif\0\0\0\1"s, "QOI"},
      {"P7\nWIDTH 3\n", "PAM"},
      {"P5 3 2 255\n", "PNM (PBM, PGM or PPM)"},
      {"P1\n# a comment\n3 2\n", "PNM (PBM, PGM or PPM)"},
      {padded("\0\0\1\0\1\0\x20\x20\0\0\1\0"s), "ICO"},
      {padded("\n\5\1\x08"s), "PCX"},
      {"\0\0\0\x18"s + "ftypisom\0\0\0\0mp41mp42",
       "a video, or HEIF that is neither AVIF nor HEIC"},
  };
  for (const auto& [bytes, name] : files) {
    const absl::StatusOr<ImageHeader> header = Read(bytes);
    ASSERT_FALSE(header.ok()) << name;
    EXPECT_EQ(header.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(std::string(header.status().message()),
              name + ", which is not supported; convert it to JPEG or PNG");
  }
  // Text and zeros that only begin like them.
  ExpectError("P6 is a format", "not an image: starts with \"P6 is a format\"");
  ExpectError("P5", "not an image");
  ExpectError(padded("\n"), "not an image");
  ExpectError(padded("\0\0\1"s), "not an image");
  ExpectError("\n\5\1\x08"s, "not an image");
}

TEST(ImageHeaderTest, SaysThatAFileEndsTooEarly) {
  ExpectError("\xff", "the file ends after 1 bytes");
  ExpectError("\x89PNG", "the file ends after 4 bytes");
  ExpectError(Encode(".jpg", 5, 5).substr(0, 100), "JPEG ends before its size, after 100 bytes");
  ExpectError(Encode(".png", 5, 5).substr(0, 20), "PNG ends before its size");
  ExpectError(Gif(5, 5).substr(0, 9), "GIF ends before its size");
  ExpectError(Encode(".bmp", 5, 5).substr(0, 20), "BMP ends before its size");
  ExpectError(Encode(".webp", 5, 5).substr(0, 24), "WebP ends before its size");
  ExpectError(Encode(".tiff", 5, 5).substr(0, 12), "TIFF ends before its size");
}

TEST(ImageHeaderTest, RefusesSizesOfZero) {
  ExpectError(Gif(0, 5), "GIF says that it is 0 pixels wide and 5 high");
  ExpectError(Jpeg('\xc0', 5, 0), "JPEG says that it is 0 pixels wide and 5 high");
  ExpectError(Patched(Encode(".png", 5, 5), 16, "\0\0\0\0"s), "PNG says that it is 0 pixels wide");
  ExpectError(Patched(Encode(".png", 5, 5), 16, "\xff\xff\xff\xff"s),
              "PNG says that it is 4294967295 pixels wide");
  ExpectError(Patched(Encode(".bmp", 5, 5), 22, "\0\0\0\x80"s), "2147483648 high");
  ExpectError("MM\0*\0\0\0\x08\0\0"s, "TIFF says that it is 0 pixels wide and 0 high");
}

TEST(ImageHeaderTest, SaysThatAJpegTellsItsHeightTooLate) {
  ExpectError(Jpeg('\xc0', 0, 5), "height only after its first scan (a DNL marker)");
}

TEST(ImageHeaderTest, SaysWhereAJpegIsDamaged) {
  ExpectError("\xff\xd8\x12\x34"s,
              "JPEG is damaged at byte 2: expected a marker (0xff), found 0x12");
  ExpectError("\xff\xd8\xff\xe0\0\x01"s, "JPEG is damaged at byte 4: a segment of 1 bytes");
  ExpectError("\xff\xd8\xff\xda\0\x02"s, "JPEG is damaged at byte 2: a scan comes before");
  ExpectError("\xff\xd8\xff\xd9"s, "JPEG is damaged at byte 2: its end comes before");
  ExpectError("\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x03"s, "a frame header of 11 bytes for 3");
  for (const auto& [sof, bits] : {std::pair('\xc0', 235),
                                  {'\xc0', 12},
                                  {'\xc1', 16},
                                  {'\xc2', 9},
                                  {'\xc5', 0},
                                  {'\xc3', 1},
                                  {'\xcb', 17}}) {
    ExpectError(Patched(Jpeg(sof, 5, 5), 6, {static_cast<char>(bits)}),
                "JPEG is damaged at byte 6: samples of " + std::to_string(bits) + " bits");
  }
}

TEST(ImageHeaderTest, SaysWhatIsWrongWithOtherFormats) {
  ExpectError(Patched(Encode(".png", 5, 5), 12, "CgBI"), "PNG does not start with its header");
  ExpectError(Patched(Encode(".png", 5, 5), 25, "\x05"), "unknown color type 5");
  ExpectError(Patched(Encode(".webp", 5, 5, CV_8UC3, kLossyWebp), 23, "abc"),
              "does not start with a key frame");
  ExpectError(Patched(Encode(".webp", 5, 5, CV_8UC3, kLosslessWebp), 20, "a"),
              "unexpected signature");
  ExpectError("RIFF\0\0\0\0WEBPEXIF\0\0\0\0"s, "first chunk is not an image");
  ExpectError("MM\0*\0\0\0\x08\0\x01\x01\0\0\x02\0\0\0\x01\0\0\0\x05"s,
              "TIFF is damaged at byte 10: tag 256 has type 2");
}

// Truncated and mutated images result in a header or an error, never in a crash or a read past the
// end.
TEST(ImageHeaderTest, SurvivesEveryCutAndManyMutations) {
  std::vector<std::string> images = {Gif(3, 4), Jpeg('\xc2', 3, 4)};
  for (const char* suffix : {".jpg", ".png", ".bmp", ".tiff"}) {
    images.push_back(Encode(suffix, 9, 11));
  }
  images.push_back(Encode(".webp", 9, 11, CV_8UC3, kLossyWebp));
  images.push_back(Encode(".webp", 9, 11, CV_8UC3, kLosslessWebp));
  images.push_back(Encode(".webp", 9, 11, CV_8UC4, kLossyWebp));
  std::mt19937 random(1);
  for (const std::string& image : images) {
    for (size_t size = 0; size <= image.size(); ++size) {
      const absl::StatusOr<ImageHeader> header = Read(image.substr(0, size));
      if (!header.ok()) {
        EXPECT_FALSE(header.status().message().empty());
        continue;
      }
      EXPECT_GE(header->height, 1);
    }
    for (int i = 0; i < 20000; ++i) {
      std::string mutant = image;
      for (int change = random() % 4; change >= 0; --change) {
        // Most fields are at the front; TIFF has its directory at the end.
        size_t at = random() % std::min<size_t>(mutant.size(), 64);
        if (random() % 4 == 0) at = mutant.size() - 1 - at;
        mutant[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      }
      if (random() % 4 == 0) mutant.resize(random() % mutant.size());
      const absl::StatusOr<ImageHeader> header = Read(mutant);
      if (header.ok()) {
        EXPECT_GE(header->height, 1);
        EXPECT_GE(header->width, 1);
      }
    }
  }
}

}  // namespace
}  // namespace shardfeed
