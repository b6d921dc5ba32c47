#include "decode/images/jpeg/jpeg_resize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "decode/images/jpeg/seekable_jpeg.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/decode/jpeg_images.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using ::testing::Pair;

std::string Resize(const std::string& jpeg, const JpegResizeOptions& options) {
  std::string resized;
  const absl::StatusOr<ResizedJpeg> size = ResizeJpeg(jpeg, options, &resized);
  EXPECT_TRUE(size.ok()) << size.status();
  if (!size.ok()) return "";
  const testing::Pixels pixels = testing::DecodeByLibjpeg(resized);
  EXPECT_EQ(pixels.width, size->width);
  EXPECT_EQ(pixels.height, size->height);
  EXPECT_EQ(pixels.warnings, 0);
  return resized;
}

std::pair<uint32_t, uint32_t> SizeOf(int width, int height, uint32_t shorter) {
  std::string resized;
  const absl::StatusOr<ResizedJpeg> size =
      ResizeJpeg(MakeJpeg({.width = width, .height = height}), {.shorter_side = shorter}, &resized);
  EXPECT_TRUE(size.ok()) << size.status();
  return {size->width, size->height};
}

TEST(JpegResizeTest, TheShorterSideIsAsAskedFor) {
  EXPECT_THAT(SizeOf(100, 80, 40), Pair(50, 40));
  EXPECT_THAT(SizeOf(80, 100, 40), Pair(40, 50));
  EXPECT_THAT(SizeOf(101, 80, 79), Pair(100, 79));
  EXPECT_THAT(SizeOf(1000, 17, 1), Pair(59, 1));
  EXPECT_THAT(SizeOf(640, 640, 33), Pair(33, 33));
  // Images that are not larger are not resized.
  EXPECT_THAT(SizeOf(100, 80, 80), Pair(0, 0));
  EXPECT_THAT(SizeOf(100, 80, 200), Pair(0, 0));
}

// Luma is preserved at half the chroma resolution, except where values are clipped.
double Luma(const uint8_t* rgb) { return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]; }

// The mean distance of the pixels' luma from the means of their areas.
double DistanceFromMeans(const testing::Pixels& large, const testing::Pixels& small) {
  const double across = static_cast<double>(large.width) / small.width;
  const double down = static_cast<double>(large.height) / small.height;
  const auto overlap = [](double begin, double end, uint32_t pixel) {
    return std::min<double>(end, pixel + 1) - std::max<double>(begin, pixel);
  };
  double error = 0;
  for (uint32_t y = 0; y < small.height; ++y) {
    for (uint32_t x = 0; x < small.width; ++x) {
      double mean = 0;
      for (auto v = static_cast<uint32_t>(y * down); v < (y + 1) * down && v < large.height; ++v) {
        for (auto u = static_cast<uint32_t>(x * across); u < (x + 1) * across && u < large.width;
             ++u) {
          mean += overlap(y * down, (y + 1) * down, v) * overlap(x * across, (x + 1) * across, u) *
                  Luma(&large.values[(size_t{v} * large.width + u) * 3]);
        }
      }
      mean /= across * down;
      error += std::abs(mean - Luma(&small.values[(size_t{y} * small.width + x) * 3]));
    }
  }
  return error / (small.width * small.height);
}

TEST(JpegResizeTest, EachPixelIsTheMeanOfItsArea) {
  const std::string jpeg =
      MakeJpeg({.width = 240, .height = 180, .sampling = {{1, 1}, {1, 1}, {1, 1}}, .quality = 95});
  const testing::Pixels large = testing::DecodeByLibjpeg(jpeg);
  for (const uint32_t side : {120, 100, 90, 77, 60, 36, 20, 11}) {
    const testing::Pixels small =
        testing::DecodeByLibjpeg(Resize(jpeg, {.shorter_side = side, .quality = 100}));
    EXPECT_LT(DistanceFromMeans(large, small), 1) << side;
  }
}

TEST(JpegResizeTest, SizesThatScalingDoesNotDivide) {
  // Scaled to a quarter and to an eighth, the last pixels cover less than the others.
  for (const auto& [width, height] : {std::pair{505, 509}, {389, 777}, {801, 401}}) {
    const std::string jpeg = MakeJpeg(
        {.width = width, .height = height, .sampling = {{1, 1}, {1, 1}, {1, 1}}, .quality = 95});
    const testing::Pixels large = testing::DecodeByLibjpeg(jpeg);
    for (const uint32_t side : {30, 11}) {
      const testing::Pixels small =
          testing::DecodeByLibjpeg(Resize(jpeg, {.shorter_side = side, .quality = 100}));
      EXPECT_LT(DistanceFromMeans(large, small), 1) << width << " x " << height << " to " << side;
    }
  }
}

TEST(JpegResizeTest, GrayStaysGrayToTheLevel) {
  const std::string jpeg = MakeJpeg({.width = 200, .height = 120, .sampling = {{1, 1}}});
  const testing::Pixels large = testing::DecodeByLibjpeg(jpeg, JCS_GRAYSCALE);
  const testing::Pixels small =
      testing::DecodeByLibjpeg(Resize(jpeg, {.shorter_side = 40, .quality = 100}), JCS_GRAYSCALE);
  ASSERT_EQ(small.width, 67);
  // 120 / 40 rows is an integer, but columns are not, so only the overall mean is compared.
  double large_sum = 0;
  double small_sum = 0;
  for (uint8_t value : large.values) large_sum += value;
  for (uint8_t value : small.values) small_sum += value;
  EXPECT_NEAR(large_sum / large.values.size(), small_sum / small.values.size(), 1.0);
}

TEST(JpegResizeTest, AllKindsOfJpeg) {
  const std::vector<std::pair<int, int>> cmyk = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
  for (const testing::JpegSpec& spec :
       std::vector<testing::JpegSpec>{{.width = 99, .height = 77},
                                      {.width = 99, .height = 77, .progressive = true},
                                      {.width = 99, .height = 77, .arithmetic = true},
                                      {.width = 99, .height = 77, .rgb = true},
                                      {.width = 99, .height = 77, .sampling = cmyk},
                                      {.width = 99, .height = 77, .sampling = cmyk, .ycck = true},
                                      {.width = 99, .height = 77, .restart_interval = 1}}) {
    const std::string resized = Resize(MakeJpeg(spec), {.shorter_side = 20});
    EXPECT_TRUE(IsSeekable(resized));
    EXPECT_FALSE(IsSeekable(Resize(MakeJpeg(spec), {.shorter_side = 20, .seekable = false})));
  }
}

TEST(JpegResizeTest, SegmentsAreKept) {
  const std::string jpeg = MakeJpeg({.width = 99,
                                     .height = 77,
                                     .segments = {{0xe1, "Exif and more"},
                                                  {0xe2, "a profile"},
                                                  {0xe2, std::string("MPF\0and more", 12)},
                                                  {0xfe, "a comment"}}});
  std::vector<std::pair<int, std::string>> segments =
      testing::Segments(Resize(jpeg, {.shorter_side = 20}));
  std::erase_if(segments, [](const auto& s) { return s.first == 0xe0 || s.first == 0xee; });
  EXPECT_THAT(segments, ElementsAre(Pair(0xe1, "Exif and more"), Pair(0xe2, "a profile"),
                                    Pair(0xfe, "a comment")));
}

TEST(JpegResizeTest, DamageIsAnError) {
  const std::string jpeg = MakeJpeg({.width = 100, .height = 80});
  std::string resized;
  absl::StatusOr<ResizedJpeg> size =
      ResizeJpeg(jpeg.substr(0, jpeg.size() / 2), {.shorter_side = 20}, &resized);
  EXPECT_EQ(size.status().code(), absl::StatusCode::kDataLoss) << size.status();
  EXPECT_THAT(std::string(size.status().message()), HasSubstr("JPEG is cut off"));
  for (size_t n = 0; n < jpeg.size(); n += 97) {
    ResizeJpeg(jpeg.substr(0, n), {.shorter_side = 20}, &resized).status().IgnoreError();
  }
  size = ResizeJpeg("text", {}, &resized);
  EXPECT_EQ(size.status().code(), absl::StatusCode::kDataLoss);
  std::string huge = jpeg;
  const size_t at = testing::FindMarker(huge, 0xc0) + 5;
  for (size_t i = 0; i < 4; ++i) huge[at + i] = '\xff';
  size = ResizeJpeg(huge, {}, &resized);
  EXPECT_EQ(size.status().code(), absl::StatusCode::kUnimplemented) << size.status();
  EXPECT_EQ(size.status().message(), "more than 134217728 pixels");
}

// A conversion keeps such images as they are.
TEST(JpegResizeTest, ScansHaveALimit) {
  std::vector<jpeg_scan_info> scans = {{1, {0}, 0, 0, 0, 8}};
  for (int low = 7; low >= 0; --low) scans.push_back({1, {0}, 0, 0, low + 1, low});
  for (int k = 1; k < 64; ++k) {
    scans.push_back({1, {0}, k, k, 0, 8});
    for (int low = 7; low >= 0; --low) scans.push_back({1, {0}, k, k, low + 1, low});
  }
  ASSERT_GT(scans.size(), 500);
  std::string resized;
  const absl::StatusOr<ResizedJpeg> size =
      ResizeJpeg(MakeJpeg({.width = 60, .height = 40, .sampling = {{1, 1}}, .scans = scans}),
                 {.shorter_side = 20}, &resized);
  EXPECT_EQ(size.status().code(), absl::StatusCode::kUnimplemented) << size.status();
  EXPECT_EQ(size.status().message(), "more than 500 scans");
}

TEST(JpegResizeTest, TheSameBytesEachTime) {
  const std::string jpeg = MakeJpeg({.width = 123, .height = 77});
  const std::string first = Resize(jpeg, {.shorter_side = 20});
  Resize(MakeJpeg({.width = 300, .height = 300}), {.shorter_side = 100});
  EXPECT_TRUE(Resize(jpeg, {.shorter_side = 20}) == first);
}

}  // namespace
}  // namespace shardfeed
