#include "decode/jpeg.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "decode/seekable_jpeg.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/decode/jpeg_pictures.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::DecodeByLibjpeg;
using testing::FindMarker;
using testing::JpegSpec;
using testing::MakeJpeg;
using testing::Pixels;

using Sampling = std::vector<std::pair<int, int>>;

const std::vector<Sampling> kSamplings = {
    {{1, 1}},                  // grey
    {{2, 2}},                  // grey, with factors that mean nothing
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
    {{1, 1}, {2, 2}, {1, 1}},  // the luma is the smaller one
    {{2, 1}, {2, 1}, {2, 1}},
    {{1, 1}, {1, 1}, {1, 1}, {1, 1}},  // CMYK
    {{2, 1}, {1, 1}, {1, 1}, {2, 1}},
    {{2, 2}, {1, 1}, {1, 1}, {2, 2}},
};

// Decodes into memory of just the size that it takes, from memory of just the size of the file, so
// that AddressSanitizer sees every byte too many.
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

// What `crop` has to be, out of libjpeg's whole picture.
std::vector<uint8_t> Expected(const Pixels& whole, const JpegCrop& crop) {
  std::vector<uint8_t> pixels;
  for (uint32_t y = crop.y; y < crop.y + crop.height; ++y) {
    const auto row = whole.values.begin() +
                     static_cast<ptrdiff_t>((size_t{y} * whole.width + crop.x) * whole.channels);
    pixels.insert(pixels.end(), row, row + static_cast<ptrdiff_t>(crop.width * whole.channels));
  }
  return pixels;
}

// CMYK as it is told in jpeg.h, in floating point.
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

// Crops at random and in the corners, at all scales, against the whole picture by libjpeg.
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

TEST_F(JpegTest, CropsArePartsOfTheWholePicture) {
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

TEST_F(JpegTest, CropsOfProgressivePicturesArePartsOfTheWhole) {
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
}  // namespace
}  // namespace shardfeed
