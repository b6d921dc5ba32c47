#include "decode/images/formats/png.h"

#include <png.h>
#include <zlib.h>

#include <string>
#include <utility>
#include <vector>

#include "decode/images/formats/raw_samples.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

TEST(EncodePng, IsDecodedToTheSamePixels) {
  constexpr uint32_t kWidth = 37;
  constexpr uint32_t kHeight = 11;
  std::vector<uint8_t> pixels(kWidth * kHeight * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 3);
  std::string png = "what was there before";
  ASSERT_TRUE(EncodePng(pixels.data(), kWidth, kHeight, &png).ok());
  EXPECT_TRUE(png.starts_with("\x89PNG"));
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(png);
  ASSERT_TRUE(header.ok()) << header.status();
  std::vector<uint8_t> decoded;
  ASSERT_TRUE(DecodePng(png, *header, 3, &decoded).ok());
  EXPECT_EQ(decoded, pixels);
}

TEST(EncodePng, ErrorsAreReturnedAndNotPrinted) {
  std::vector<uint8_t> pixels(3 * 1'000'001);  // libpng's limit is a million
  std::string png;
  testing::internal::CaptureStderr();
  const absl::Status status = EncodePng(pixels.data(), 1'000'001, 1, &png);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot make a png of 1000001 x 1 pixels"));
}

TEST(DecodePng, DamageIsReturnedAndNotPrinted) {
  std::vector<uint8_t> pixels(16 * 16 * 3, 100);
  std::string png;
  ASSERT_TRUE(EncodePng(pixels.data(), 16, 16, &png).ok());
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(png);
  ASSERT_TRUE(header.ok()) << header.status();
  testing::internal::CaptureStderr();
  for (size_t i = 8; i < png.size(); ++i) {
    std::string damaged = png;
    damaged[i] ^= 0x41;
    std::vector<uint8_t> decoded;
    DecodePng(damaged, *header, 3, &decoded).IgnoreError();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// A PNG of gray pixels of 8 bits in rows of one color, compressed as far as it goes.
std::string Stripes(uint32_t width, uint32_t height, bool interlaced) {
  struct Writer {
    std::string png;
  } writer;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &writer,
      [](png_structp to, png_bytep from, png_size_t count) {
        static_cast<Writer*>(png_get_io_ptr(to))
            ->png.append(reinterpret_cast<const char*>(from), count);
      },
      nullptr);
  png_set_compression_level(png, 9);
  png_set_IHDR(png, info, width, height, 8, PNG_COLOR_TYPE_GRAY,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
  png_write_info(png, info);
  const std::vector<uint8_t> row(width);
  for (int pass = png_set_interlace_handling(png); pass > 0; --pass) {
    for (uint32_t y = 0; y < height; ++y) png_write_row(png, row.data());
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return writer.png;
}

TEST(DecodePng, WhatIsCompressedAsFarAsItGoesIsDecoded) {
  for (const auto& [width, height] : {std::pair(3000u, 2000u), {1u, 1'000'000u}, {2u, 500'000u}}) {
    for (const bool interlaced : {false, true}) {
      const std::string png = Stripes(width, height, interlaced);
      const absl::StatusOr<ImageHeader> header = ReadImageHeader(png);
      ASSERT_TRUE(header.ok()) << header.status();
      std::vector<uint8_t> decoded;
      const absl::Status status = DecodePng(png, *header, 1, &decoded);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(decoded, std::vector<uint8_t>(size_t{width} * height));
    }
  }
}

TEST(DecodePng, ASizeThatTheFileCannotHoldIsRefusedBeforeItIsAllocated) {
  for (const bool interlaced : {false, true}) {
    // A header for 1 x 134217728 pixels, whose CRC-32 follows.
    const std::string png = Stripes(1, 5, interlaced);
    const size_t bytes = png.size();
    std::string huge = png;
    huge.replace(16, 8, "\0\0\0\1\x08\0\0\0"s);
    const uint32_t crc = crc32(0, reinterpret_cast<const Bytef*>(&huge[12]), 17);
    for (int i = 0; i < 4; ++i) huge[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(huge);
    ASSERT_TRUE(header.ok()) << header.status();
    std::vector<uint8_t> decoded;
    absl::Status status = DecodePng(huge, *header, 3, &decoded);
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_EQ(
        std::string(status.message()),
        fmt::format("png is cut off or damaged: its {} bytes cannot hold 1 x 134217728 pixels",
                    bytes));
    EXPECT_EQ(decoded.capacity(), 0u);
    RawSamples samples({});
    EXPECT_EQ(ReadRawPng(huge, *header, &samples), status);
    EXPECT_EQ(samples.kept_bytes(), 0u);
  }
}

}  // namespace
}  // namespace shardfeed
