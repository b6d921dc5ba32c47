#include "decode/images/jpeg/jpeg.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "decode/images/jpeg/seekable_jpeg.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "media/image_limit.h"
#include "tests/decode/jpeg_images.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::AnyOf;
using testing::Coefficients;
using testing::DecodeByLibjpeg;
using testing::FindMarker;
using testing::JpegSpec;
using testing::MakeJpeg;
using testing::Pixels;
using ::testing::StartsWith;

using Sampling = std::vector<std::pair<int, int>>;

const std::vector<Sampling> kSamplings = {
    {{1, 1}},                  // gray
    {{2, 2}},                  // gray, with meaningless factors
    {{1, 1}, {1, 1}, {1, 1}},  // 4:4:4
    {{2, 1}, {1, 1}, {1, 1}},  // 4:2:2
    {{1, 2}, {1, 1}, {1, 1}},  // 4:4:0
    {{2, 2}, {1, 1}, {1, 1}},  // 4:2:0
    {{4, 1}, {1, 1}, {1, 1}},  // 4:1:1
    {{1, 4}, {1, 1}, {1, 1}},
    {{4, 2}, {1, 1}, {1, 1}},  // 4:1:0
    {{2, 4}, {1, 1}, {1, 1}},
    {{3, 1}, {1, 1}, {1, 1}},
    {{1, 3}, {1, 1}, {1, 1}},
    {{2, 2}, {2, 1}, {1, 2}},
    {{2, 2}, {1, 2}, {1, 1}},
    {{4, 1}, {2, 1}, {1, 1}},
    {{1, 1}, {2, 2}, {1, 1}},  // luma is smaller than one chroma component
    {{2, 1}, {2, 1}, {2, 1}},
    {{1, 1}, {1, 1}, {1, 1}, {1, 1}},  // CMYK
    {{2, 1}, {1, 1}, {1, 1}, {2, 1}},
    {{2, 2}, {1, 1}, {1, 1}, {2, 2}},
};

// Decodes into memory of exactly the needed size, from memory of exactly the size of the file, so
// that AddressSanitizer detects any access past the end.
absl::StatusOr<std::vector<uint8_t>> Crop(JpegDecoder& decoder, const std::string& jpeg,
                                          const JpegCrop& crop, size_t gap = 0) {
  const std::unique_ptr<char[]> exact(new char[jpeg.size()]);
  jpeg.copy(exact.get(), jpeg.size());
  const size_t row_size = size_t{crop.width} * crop.channels;
  std::vector<uint8_t> strided((row_size + gap) * crop.height - gap, 0xa5);
  absl::Status status =
      decoder.DecodeCrop({exact.get(), jpeg.size()}, crop, strided.data(), row_size + gap);
  if (!status.ok()) return status;
  std::vector<uint8_t> pixels;
  for (uint32_t y = 0; y < crop.height; ++y) {
    const auto row = strided.begin() + static_cast<ptrdiff_t>(y * (row_size + gap));
    pixels.insert(pixels.end(), row, row + static_cast<ptrdiff_t>(row_size));
    if (y + 1 < crop.height) {
      EXPECT_TRUE(std::all_of(row + static_cast<ptrdiff_t>(row_size),
                              row + static_cast<ptrdiff_t>(row_size + gap),
                              [](uint8_t value) { return value == 0xa5; }));
    }
  }
  return pixels;
}

// The expected pixels of `crop`, from libjpeg's whole image.
std::vector<uint8_t> Expected(const Pixels& whole, const JpegCrop& crop) {
  std::vector<uint8_t> pixels;
  for (uint32_t y = crop.y; y < crop.y + crop.height; ++y) {
    const auto row = whole.values.begin() +
                     static_cast<ptrdiff_t>((size_t{y} * whole.width + crop.x) * whole.channels);
    pixels.insert(pixels.end(), row, row + static_cast<ptrdiff_t>(crop.width * whole.channels));
  }
  return pixels;
}

// Converts CMYK as defined in jpeg.h, in floating point.
Pixels RgbOfCmyk(const Pixels& cmyk, bool adobe) {
  Pixels rgb = cmyk;
  rgb.channels = 3;
  rgb.values.clear();
  for (size_t i = 0; i < cmyk.values.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) {
      const double ink = adobe ? 255 - cmyk.values[i + c] : cmyk.values[i + c];
      const double black = adobe ? 255 - cmyk.values[i + 3] : cmyk.values[i + 3];
      rgb.values.push_back(static_cast<uint8_t>((255 - ink) * (255 - black) / 255 + 0.5));
    }
  }
  return rgb;
}

std::string Text(const JpegCrop& crop) {
  return fmt::format("1/{}: {} x {} at ({}, {})", crop.scale_denominator, crop.width, crop.height,
                     crop.x, crop.y);
}

// Compares random crops and crops in the corners, at all scales, with libjpeg's whole image.
void ExpectCrops(const std::string& jpeg, JpegDecoder& decoder, JpegPath path, int num_crops,
                 const std::string& name) {
  SCOPED_TRACE(name);
  std::mt19937 random(7);
  for (int denominator : {1, 2, 4, 8}) {
    const Pixels as_coded = DecodeByLibjpeg(jpeg, JCS_CMYK, denominator);
    const Pixels rgb = as_coded.error.empty()
                           ? RgbOfCmyk(as_coded, FindMarker(jpeg, 0xee) != std::string::npos)
                           : DecodeByLibjpeg(jpeg, JCS_RGB, denominator);
    ASSERT_EQ(rgb.error, "");
    ASSERT_EQ(rgb.warnings, 0);
    for (int i = 0; i < num_crops; ++i) {
      JpegCrop crop;
      crop.scale_denominator = denominator;
      crop.x = random() % rgb.width;
      crop.y = random() % rgb.height;
      crop.width = 1 + random() % (rgb.width - crop.x);
      crop.height = 1 + random() % (rgb.height - crop.y);
      if (i == 0) crop = {denominator, 0, 0, rgb.width, rgb.height};
      if (i == 1) crop = {denominator, rgb.width - 1, rgb.height - 1, 1, 1};
      if (i == 2) crop = {denominator, 0, 0, 1, 1};
      if (i % 5 == 4) crop.width = std::min(crop.width, 1 + i % 7u);
      if (i % 5 == 3) crop.height = std::min(crop.height, 1 + i % 3u);
      const auto pixels = Crop(decoder, jpeg, crop, i % 2 * 5);
      ASSERT_TRUE(pixels.ok()) << pixels.status() << " " << Text(crop);
      ASSERT_TRUE(*pixels == Expected(rgb, crop)) << Text(crop);
      ASSERT_EQ(decoder.path(), path) << Text(crop);
    }
  }
}

std::string NameOf(const Sampling& sampling) {
  std::string name;
  for (const auto& [h, v] : sampling) name += fmt::format(" {}x{}", h, v);
  return name;
}

class JpegTest : public ::testing::Test {
 protected:
  JpegDecoder decoder_;
};

TEST_F(JpegTest, CropsArePartsOfTheWholeImage) {
  for (const Sampling& sampling : kSamplings) {
    for (int restart_interval : {0, 1, 3}) {
      const JpegSpec spec = {
          .width = 117, .height = 90, .sampling = sampling, .restart_interval = restart_interval};
      ExpectCrops(MakeJpeg(spec), decoder_,
                  restart_interval > 0 ? JpegPath::kRestarts : JpegPath::kSkipped, 25,
                  fmt::format("{} restarts {}", NameOf(sampling), restart_interval));
    }
  }
}

TEST_F(JpegTest, CropsOfProgressiveImagesArePartsOfTheWhole) {
  for (const Sampling& sampling : kSamplings) {
    const JpegSpec spec = {.width = 117, .height = 90, .sampling = sampling, .progressive = true};
    ExpectCrops(MakeJpeg(spec), decoder_, JpegPath::kLibjpeg, 25, NameOf(sampling));
  }
}

TEST_F(JpegTest, CropsOfSeparateScansArePartsOfTheWhole) {
  for (const Sampling& sampling : kSamplings) {
    if (sampling.size() == 1) continue;
    const JpegSpec spec = {
        .width = 117, .height = 90, .sampling = sampling, .separate_scans = true};
    ExpectCrops(MakeJpeg(spec), decoder_, JpegPath::kLibjpeg, 10, NameOf(sampling));
  }
}

TEST_F(JpegTest, CropsOfArithmeticCodingArePartsOfTheWhole) {
  for (bool progressive : {false, true}) {
    const JpegSpec spec = {
        .width = 117, .height = 90, .arithmetic = true, .progressive = progressive};
    ExpectCrops(MakeJpeg(spec), decoder_, JpegPath::kLibjpeg, 10, "arithmetic");
  }
}

TEST_F(JpegTest, CropsOfSeekableImagesArePartsOfTheWhole) {
  for (const Sampling& sampling : kSamplings) {
    for (bool progressive : {false, true}) {
      const std::string jpeg =
          MakeJpeg({.width = 117, .height = 90, .sampling = sampling, .progressive = progressive});
      std::string seekable;
      ASSERT_EQ(MakeSeekable(jpeg, {}, &seekable)->outcome, SeekableJpeg::Outcome::kRewritten);
      ExpectCrops(seekable, decoder_, JpegPath::kRestarts, 25, NameOf(sampling));
    }
  }
}

TEST_F(JpegTest, CropsOfAnyRestartIntervalArePartsOfTheWhole) {
  // 6 rows of 8 MCUs.
  for (int interval : {1, 2, 4, 5, 7, 8, 9, 16, 24, 47, 48, 49, 65535}) {
    ExpectCrops(MakeJpeg({.width = 117, .height = 90, .restart_interval = interval}), decoder_,
                JpegPath::kRestarts, 25, fmt::format("{}", interval));
  }
}

TEST_F(JpegTest, CropsOfAllSizesArePartsOfTheWhole) {
  for (int width : {1, 2, 3, 5, 15, 16, 17, 18, 19, 20, 21, 31, 33, 34, 35}) {
    for (int height : {1, 2, 7, 16, 17, 18, 33}) {
      for (const Sampling& sampling :
           {Sampling{{2, 2}, {1, 1}, {1, 1}}, Sampling{{2, 2}}, Sampling{{2, 1}, {1, 1}, {1, 1}}}) {
        for (bool progressive : {false, true}) {
          ExpectCrops(MakeJpeg({.width = width,
                                .height = height,
                                .sampling = sampling,
                                .progressive = progressive}),
                      decoder_, progressive ? JpegPath::kLibjpeg : JpegPath::kSkipped, 8,
                      fmt::format("{} x {}{}", width, height, NameOf(sampling)));
        }
      }
    }
  }
}

TEST_F(JpegTest, CropsOfWideImagesArePartsOfTheWhole) {
  ExpectCrops(MakeJpeg({.width = 65500, .height = 19}), decoder_, JpegPath::kSkipped, 10, "wide");
  ExpectCrops(MakeJpeg({.width = 65500, .height = 19, .restart_interval = 4}), decoder_,
              JpegPath::kRestarts, 10, "wide, restarts");
  ExpectCrops(MakeJpeg({.width = 19, .height = 65500, .restart_interval = 2}), decoder_,
              JpegPath::kRestarts, 5, "high, restarts");
}

// Large parts are skipped, by several symbols at a time.
TEST_F(JpegTest, CropsOfLargeImagesArePartsOfTheWhole) {
  for (const Sampling& sampling :
       {Sampling{{2, 2}, {1, 1}, {1, 1}}, Sampling{{1, 1}, {1, 1}, {1, 1}}, Sampling{{1, 1}}}) {
    for (int quality : {10, 60, 90, 100}) {
      for (bool optimized : {false, true}) {
        const JpegSpec spec = {.width = 1100,
                               .height = 950,
                               .sampling = sampling,
                               .quality = quality,
                               .optimized = optimized};
        ExpectCrops(MakeJpeg(spec), decoder_, JpegPath::kSkipped, 8,
                    fmt::format("{} quality {}", NameOf(sampling), quality));
      }
    }
  }
}

// Sixteen zeros take one bit there, so many of them do not end a block. Small images are decoded in
// order, large ones are skimmed.
TEST_F(JpegTest, CropsOfBlocksWithTheLastCoefficientOnlyArePartsOfTheWhole) {
  for (const int side : {344, 904}) {
    const std::string jpeg = MakeJpeg({.width = side,
                                       .height = side,
                                       .sampling = {{1, 1}},
                                       .quality = 50,
                                       .optimized = true,
                                       .last_coefficient_only = true});
    const std::vector<int16_t> coefficients = Coefficients(jpeg);
    for (size_t i = 1; i < coefficients.size(); ++i) {
      ASSERT_EQ(coefficients[i] != 0, i % 64 == 63) << i;
    }
    ExpectCrops(jpeg, decoder_, JpegPath::kSkipped, 20, fmt::format("{} x {}", side, side));
  }
}

TEST_F(JpegTest, CropsOfAllQualitiesArePartsOfTheWhole) {
  for (int quality : {1, 10, 50, 95, 100}) {
    for (bool optimized : {false, true}) {
      ExpectCrops(
          MakeJpeg({.width = 117, .height = 90, .quality = quality, .optimized = optimized}),
          decoder_, JpegPath::kSkipped, 10, fmt::format("quality {}", quality));
    }
  }
}

// libjpeg smooths between blocks of images whose coefficients are incomplete.
TEST_F(JpegTest, CropsOfIncompleteProgressiveImagesArePartsOfTheWhole) {
  for (const std::vector<jpeg_scan_info>& scans :
       {std::vector<jpeg_scan_info>{{3, {0, 1, 2}, 0, 0, 0, 0}},
        std::vector<jpeg_scan_info>{{3, {0, 1, 2}, 0, 0, 0, 0}, {1, {0}, 1, 5, 0, 2}}}) {
    ExpectCrops(MakeJpeg({.width = 117, .height = 90, .scans = scans}), decoder_,
                JpegPath::kLibjpeg, 25, "incomplete");
  }
}

TEST_F(JpegTest, ColorSpacesBecomeRgb) {
  const Sampling one(3, {1, 1});
  ExpectCrops(MakeJpeg({.width = 60, .height = 40, .sampling = one, .rgb = true}), decoder_,
              JpegPath::kSkipped, 5, "RGB");
  const Sampling four(4, {1, 1});
  for (bool adobe : {false, true}) {
    ExpectCrops(MakeJpeg({.width = 60, .height = 40, .sampling = four, .adobe = adobe}), decoder_,
                JpegPath::kSkipped, 5, "CMYK");
  }
  ExpectCrops(
      MakeJpeg(
          {.width = 60, .height = 40, .sampling = {{2, 2}, {1, 1}, {1, 1}, {2, 2}}, .ycck = true}),
      decoder_, JpegPath::kSkipped, 5, "YCCK");
}

TEST_F(JpegTest, ColorBecomesGray) {
  for (const JpegSpec& spec :
       {JpegSpec{.width = 60, .height = 40},
        JpegSpec{.width = 60, .height = 40, .sampling = {{1, 1}}},
        JpegSpec{.width = 60, .height = 40, .sampling = Sampling(3, {1, 1}), .rgb = true},
        JpegSpec{.width = 60, .height = 40, .progressive = true}}) {
    const std::string jpeg = MakeJpeg(spec);
    const JpegCrop crop = {.x = 7, .y = 5, .width = 40, .height = 30, .channels = 1};
    const auto pixels = Crop(decoder_, jpeg, crop);
    ASSERT_TRUE(pixels.ok()) << pixels.status();
    EXPECT_TRUE(*pixels == Expected(DecodeByLibjpeg(jpeg, JCS_GRAYSCALE), crop));
  }
}

TEST_F(JpegTest, CmykBecomesTheGrayOfItsRgb) {
  const std::string jpeg =
      MakeJpeg({.width = 60, .height = 40, .sampling = Sampling(4, {1, 1}), .adobe = false});
  const JpegCrop crop = {.x = 7, .y = 5, .width = 40, .height = 30, .channels = 1};
  const auto pixels = Crop(decoder_, jpeg, crop);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  JpegCrop colored = crop;
  colored.channels = 3;
  const std::vector<uint8_t> rgb =
      Expected(RgbOfCmyk(DecodeByLibjpeg(jpeg, JCS_CMYK), false), colored);
  for (size_t i = 0; i < pixels->size(); ++i) {
    const double gray = 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2];
    ASSERT_NEAR((*pixels)[i], gray, 0.51);
  }
}

TEST_F(JpegTest, WrongCropsAreRefused) {
  const std::string jpeg = MakeJpeg({.width = 60, .height = 41});
  const auto expect = [&](const JpegCrop& crop, const std::string& message) {
    std::vector<uint8_t> pixels(100 * 100 * 3);
    EXPECT_FAILS(decoder_.DecodeCrop(jpeg, crop, pixels.data(), 300), kInvalidArgument, message);
  };
  expect({}, "crop of 0 x 0 pixels at (0, 0) in an image of 60 x 41");
  expect({.x = 1, .width = 60, .height = 1}, "crop of 60 x 1 pixels at (1, 0)");
  expect({.y = 40, .width = 1, .height = 2}, "crop of 1 x 2 pixels at (0, 40)");
  expect({.x = 60, .width = 1, .height = 1}, "at (60, 0)");
  expect({.x = 0xffffffff, .width = 2, .height = 1}, "at (4294967295, 0)");
  expect({.scale_denominator = 2, .y = 20, .width = 1, .height = 2}, "in an image of 30 x 21");
  expect({.scale_denominator = 3, .width = 1, .height = 1},
         "scale_denominator must be 1, 2, 4 or 8, got 3");
  expect({.width = 1, .height = 1, .channels = 4}, "channels must be 1 or 3, got 4");
  uint8_t pixel[6];
  EXPECT_FAILS(decoder_.DecodeCrop(jpeg, {.width = 2, .height = 2}, pixel, 5), kInvalidArgument,
               "row_bytes 5: a row of 2 pixels does not fit");
}

absl::Status DecodeAll(JpegDecoder& decoder, const std::string& jpeg, int width, int height) {
  return Crop(decoder, jpeg,
              {.width = static_cast<uint32_t>(width), .height = static_cast<uint32_t>(height)})
      .status();
}

TEST_F(JpegTest, WhatCannotBeDecodedIsTold) {
  EXPECT_FAILS(DecodeAll(decoder_, "", 1, 1), kDataLoss,
               "not a JPEG: it does not start with ff d8");
  EXPECT_FAILS(DecodeAll(decoder_, "\x89PNG", 1, 1), kDataLoss, "not a JPEG");
  const std::string jpeg = MakeJpeg({.width = 60, .height = 40});
  const size_t sof = FindMarker(jpeg, 0xc0);
  const auto patched = [&](size_t offset, char value) {
    std::string copy = jpeg;
    copy[sof + offset] = value;
    return copy;
  };
  for (const char process : {'\xc1', '\xc2'}) {
    std::string twelve = patched(4, 12);
    twelve[sof + 1] = process;
    EXPECT_FAILS(DecodeAll(decoder_, twelve, 60, 40), kUnimplemented,
                 "JPEG of a kind that is not supported: Unsupported JPEG data precision 12");
  }
  EXPECT_FAILS(DecodeAll(decoder_, patched(4, 12), 60, 40), kDataLoss,
               "JPEG is damaged at byte " + std::to_string(sof + 4) + ": samples of 12 bits");
  EXPECT_FAILS(DecodeAll(decoder_, patched(1, '\xc3'), 60, 40), kUnimplemented,
               "Unsupported JPEG process: SOF type 0xc3");
  // Behind the header, such a marker is damage.
  std::string behind = jpeg.substr(0, jpeg.size() - 2) + "\xff\xc6";
  behind += std::string("\0\x0b\x08\0\x28\0\x3c\1\1\x11\0\xff\xd9", 13);
  EXPECT_FAILS(DecodeAll(decoder_, behind, 60, 40), kDataLoss,
               "JPEG is damaged: Unsupported JPEG process: SOF type 0xc6");
  // So it is as a second one in the header.
  std::string second = jpeg;
  second.insert(sof, std::string("\xff\xc0\0\x0b\x08\0\x28\0\x3c\1\1\x11\0", 13));
  second[sof + 14] = '\xc6';
  EXPECT_FAILS(DecodeAll(decoder_, second, 60, 40), kDataLoss, "invalid second frame header");
  // 12 blocks in an MCU.
  std::string many = patched(11, 0x22);
  many[sof + 14] = many[sof + 17] = 0x22;
  EXPECT_FAILS(DecodeAll(decoder_, many, 60, 40), kDataLoss,
               "JPEG is damaged: Sampling factors too large for interleaved scan");
  std::string fractional = patched(11, 0x31);
  fractional[sof + 14] = 0x21;
  EXPECT_FAILS(DecodeAll(decoder_, fractional, 60, 40), kUnimplemented, "Fractional sampling");
  EXPECT_FAILS(
      DecodeAll(decoder_, MakeJpeg({.width = 60, .height = 40, .sampling = Sampling(2, {1, 1})}),
                60, 40),
      kUnimplemented, "Unsupported color conversion");
  std::string no_tables = jpeg;
  no_tables.erase(FindMarker(jpeg, 0xdb), 69);
  EXPECT_FAILS(DecodeAll(decoder_, no_tables, 60, 40), kDataLoss,
               "JPEG is damaged: Quantization table 0x00 was not defined");
  // The decoder can still be used.
  EXPECT_OK(DecodeAll(decoder_, jpeg, 60, 40));
}

TEST_F(JpegTest, PixelsAndScansHaveLimits) {
  JpegDecoder limited({.max_pixels = 2400, .max_scans = 3});
  EXPECT_OK(DecodeAll(limited, MakeJpeg({.width = 60, .height = 40}), 60, 40));
  absl::Status status = DecodeAll(limited, MakeJpeg({.width = 49, .height = 49}), 1, 1);
  EXPECT_FAILS(status, kResourceExhausted,
               "JPEG of 49 x 49 pixels is too large: the limit is 2400 in all (max_pixels)");
  EXPECT_TRUE(IsImageLimit(status));
  status = DecodeAll(limited, MakeJpeg({.width = 60, .height = 40, .progressive = true}), 1, 1);
  EXPECT_FAILS(status, kResourceExhausted,
               "JPEG of more than 3 scans, which is the limit (max_scans)");
  EXPECT_TRUE(IsImageLimit(status));
  EXPECT_OK(
      DecodeAll(limited, MakeJpeg({.width = 60, .height = 40, .separate_scans = true}), 1, 1));
  std::string bomb = MakeJpeg({.width = 60, .height = 40, .progressive = true});
  bomb.replace(FindMarker(bomb, 0xc2) + 5, 4, "\xff\xff\xff\xff");
  EXPECT_FAILS(DecodeAll(decoder_, bomb, 1, 1), kResourceExhausted, "JPEG of 65535 x 65535 pixels");
}

TEST_F(JpegTest, EveryCutIsToldOrFilledIn) {
  JpegDecoder tolerant({.accept_damaged = true});
  const JpegCrop all = {.width = 40, .height = 30};
  const JpegCrop first = {.width = 8, .height = 8};
  for (const JpegSpec& spec : {JpegSpec{.width = 40, .height = 30},
                               JpegSpec{.width = 40, .height = 30, .progressive = true},
                               JpegSpec{.width = 40, .height = 30, .restart_interval = 3}}) {
    const std::string jpeg = MakeJpeg(spec);
    const std::vector<uint8_t> sound = Expected(DecodeByLibjpeg(jpeg), first);
    int first_decoded = 0;
    for (size_t size = 0; size < jpeg.size(); ++size) {
      const std::string cut = jpeg.substr(0, size);
      const absl::Status status = Crop(decoder_, cut, all).status();
      if (size + 2 < jpeg.size()) {
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status << " " << size;
        ASSERT_THAT(std::string(status.message()),
                    AnyOf(fmt::format("JPEG ends in its header, after {} bytes", size),
                          fmt::format("JPEG is cut off: the file ends after {} bytes, before its "
                                      "image",
                                      size),
                          StartsWith("not a JPEG")));
      }
      const auto corner = Crop(decoder_, cut, first);
      if (corner.ok()) {
        ++first_decoded;
        ASSERT_TRUE(*corner == sound) << size;
      }
      const auto filled = Crop(tolerant, cut, all);
      const Pixels expected = DecodeByLibjpeg(cut);
      // Only libjpeg accepts a truncated header, as a gray image.
      if (!filled.ok() && std::string(status.message()).find("in its header") != std::string::npos)
        continue;
      ASSERT_EQ(filled.ok(), expected.error.empty() && !expected.values.empty())
          << size << filled.status();
      ASSERT_TRUE(!filled.ok() || *filled == expected.values) << size;
    }
    EXPECT_EQ(first_decoded > 0, !spec.progressive);
  }
}

TEST_F(JpegTest, DamageElsewhereDoesNotMatterBetweenRestarts) {
  // 8 x 6 MCUs with restarts after every 4: the second half of the fourth row is interval 7.
  const std::string jpeg = MakeJpeg({.width = 128, .height = 96, .restart_interval = 4});
  const Pixels whole = DecodeByLibjpeg(jpeg);
  std::string damaged = jpeg;
  size_t begin = 0;
  for (int i = 0; i < 7; ++i)
    begin = damaged.find('\xff' + std::string(1, static_cast<char>(0xd0 + i)), begin) + 2;
  damaged.erase(begin + 3, 100);
  for (const JpegCrop& crop :
       {JpegCrop{.width = 128, .height = 47}, JpegCrop{.width = 63, .height = 96},
        JpegCrop{.y = 65, .width = 128, .height = 31}}) {
    const auto pixels = Crop(decoder_, damaged, crop);
    ASSERT_TRUE(pixels.ok()) << pixels.status() << Text(crop);
    EXPECT_TRUE(*pixels == Expected(whole, crop)) << Text(crop);
  }
  const JpegCrop hit = {.x = 63, .y = 47, .width = 65, .height = 5};
  EXPECT_FAILS(Crop(decoder_, damaged, hit), kDataLoss, "JPEG is damaged: ");
  JpegDecoder tolerant({.accept_damaged = true});
  const auto pixels = Crop(tolerant, damaged, hit);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_TRUE(*pixels == Expected(DecodeByLibjpeg(damaged), hit));
}

TEST_F(JpegTest, RestartMarkersOutOfTurnAreDamage) {
  std::string jpeg = MakeJpeg({.width = 128, .height = 96, .restart_interval = 4});
  jpeg[jpeg.find("\xff\xd2") + 1] = '\xd5';
  EXPECT_FAILS(DecodeAll(decoder_, jpeg, 128, 96), kDataLoss, "JPEG is damaged: ");
  EXPECT_OK(DecodeAll(decoder_, jpeg, 128, 10));
}

// Changes some bytes of the image `num` times, and decodes a crop each time. If libjpeg has no
// complaint, the pixels must be its own; they must be the same if damage is accepted. Returns how
// many were compared with libjpeg.
int ExpectMutantsSurvived(const JpegSpec& spec, int num, JpegDecoder& strict,
                          JpegDecoder& tolerant) {
  const std::string jpeg = MakeJpeg(spec);
  std::mt19937 random(1);
  int compared = 0;
  for (int i = 0; i < num && !::testing::Test::HasFailure(); ++i) {
    std::string mutant = jpeg;
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const size_t at = 2 + random() % (mutant.size() - 2);
      mutant[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    JpegCrop crop = {.scale_denominator = 1 << random() % 4};
    const Pixels expected = DecodeByLibjpeg(mutant, JCS_RGB, crop.scale_denominator);
    // Mutants may be slightly lower.
    const uint32_t width = spec.width / crop.scale_denominator;
    const uint32_t height = (spec.height - 6) / crop.scale_denominator;
    crop.x = random() % width;
    crop.y = random() % height;
    crop.width = 1 + random() % (width - crop.x);
    crop.height = 1 + random() % (height - crop.y);
    const auto pixels = Crop(strict, mutant, crop);
    const auto filled = Crop(tolerant, mutant, crop);
    if (pixels.ok()) {
      EXPECT_TRUE(filled.ok() && *filled == *pixels)
          << filled.status() << " " << i << " " << Text(crop);
    }
    if (!expected.error.empty() || expected.width < crop.x + crop.width ||
        expected.height < crop.y + crop.height || expected.warnings > 0) {
      continue;
    }
    EXPECT_TRUE(pixels.ok() && *pixels == Expected(expected, crop))
        << pixels.status() << " " << i << " " << Text(crop);
    ++compared;
  }
  return compared;
}

TEST_F(JpegTest, SurvivesMutations) {
  JpegDecoder tolerant({.max_pixels = 1 << 20, .accept_damaged = true});
  JpegDecoder strict({.max_pixels = 1 << 20});
  // Makes the decoders skip several codes at a time from here on.
  const std::string medium = MakeJpeg({.width = 500, .height = 400});
  for (JpegDecoder* decoder : {&tolerant, &strict}) {
    ASSERT_OK(Crop(*decoder, medium, {.x = 490, .y = 390, .width = 10, .height = 10}));
  }
  int compared = 0;
  for (const JpegSpec& spec :
       {JpegSpec{.width = 40, .height = 30},
        JpegSpec{.width = 40, .height = 30, .progressive = true},
        JpegSpec{.width = 40, .height = 30, .sampling = {{1, 1}}, .restart_interval = 5},
        JpegSpec{.width = 40, .height = 30, .restart_interval = 3}}) {
    compared += ExpectMutantsSurvived(spec, 3000, strict, tolerant);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(compared, 1000);
}

TEST_F(JpegTest, SurvivesMutationsOfLargeImages) {
  JpegDecoder tolerant({.max_pixels = 1 << 20, .accept_damaged = true});
  JpegDecoder strict({.max_pixels = 1 << 20});
  const JpegSpec spec = {.width = 900, .height = 800};
  EXPECT_GT(ExpectMutantsSurvived(spec, 300, strict, tolerant), 30);
}

}  // namespace
}  // namespace shardfeed
