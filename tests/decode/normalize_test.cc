#include "decode/images/pixels/normalize.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "decode/features/float16.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

constexpr uint32_t kHeight = 5;

std::vector<uint8_t> MakePixels(size_t n) {
  std::vector<uint8_t> pixels(n);
  for (size_t i = 0; i < n; ++i) pixels[i] = static_cast<uint8_t>(i * 37 + i / 256);
  return pixels;
}

const std::vector<float> kMean = {0.485f, 0.456f, 0.406f};
const std::vector<float> kStd = {0.229f, 0.224f, 0.225f};

// Calls `check(index of the value in the output, its level, its channel)` for all pixels.
template <typename Check>
void ForEach(ImageLayout layout, uint32_t width, int channels, const std::vector<uint8_t>& pixels,
             const Check& check) {
  for (uint32_t y = 0; y < kHeight; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const size_t at = (size_t{y} * width + x) * channels + c;
        check(layout == ImageLayout::kNHWC ? at : (c * size_t{kHeight} + y) * width + x, pixels[at],
              c);
      }
    }
  }
}

class NormalizeTest : public ::testing::TestWithParam<std::tuple<ImageLayout, int, uint32_t>> {};

TEST_P(NormalizeTest, Bytes) {
  const auto [layout, channels, width] = GetParam();
  const std::vector<uint8_t> pixels = MakePixels(size_t{width} * kHeight * channels);
  std::vector<uint8_t> out(pixels.size());
  Normalizer(layout, DType::kUInt8, channels, {0, 0, 0}, {1, 1, 1})
      .Write({pixels.data(), size_t{width} * channels, width, kHeight}, out.data());
  ForEach(layout, width, channels, pixels,
          [&](size_t i, uint8_t level, int) { EXPECT_EQ(out[i], level); });
}

TEST_P(NormalizeTest, Float32) {
  const auto [layout, channels, width] = GetParam();
  const std::vector<uint8_t> pixels = MakePixels(size_t{width} * kHeight * channels);
  std::vector<float> out(pixels.size());
  Normalizer(layout, DType::kFloat32, channels, kMean, kStd)
      .Write({pixels.data(), size_t{width} * channels, width, kHeight}, out.data());
  ForEach(layout, width, channels, pixels, [&](size_t i, uint8_t level, int c) {
    EXPECT_NEAR(out[i], (level / 255.0 - kMean[c]) / kStd[c], 1e-6);
  });
}

// Within one step of the type of the exact value.
TEST_P(NormalizeTest, Float16) {
  const auto [layout, channels, width] = GetParam();
  const std::vector<uint8_t> pixels = MakePixels(size_t{width} * kHeight * channels);
  std::vector<uint16_t> out(pixels.size());
  Normalizer(layout, DType::kFloat16, channels, kMean, kStd)
      .Write({pixels.data(), size_t{width} * channels, width, kHeight}, out.data());
  ForEach(layout, width, channels, pixels, [&](size_t i, uint8_t level, int c) {
    const uint16_t exact = ToFloat16((level / 255.0f - kMean[c]) / kStd[c]);
    EXPECT_LE(std::abs(int{out[i]} - int{exact}), 1);
  });
}

TEST_P(NormalizeTest, BFloat16) {
  const auto [layout, channels, width] = GetParam();
  const std::vector<uint8_t> pixels = MakePixels(size_t{width} * kHeight * channels);
  std::vector<uint16_t> out(pixels.size());
  std::vector<float> exact(pixels.size());
  const PixelRows rows = {pixels.data(), size_t{width} * channels, width, kHeight};
  Normalizer(layout, DType::kBFloat16, channels, kMean, kStd).Write(rows, out.data());
  Normalizer(layout, DType::kFloat32, channels, kMean, kStd).Write(rows, exact.data());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], ToBFloat16(exact[i])) << exact[i];
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, NormalizeTest,
    ::testing::Combine(::testing::Values(ImageLayout::kNHWC, ImageLayout::kNCHW),
                       ::testing::Values(1, 3), ::testing::Values(1u, 7u, 16u, 33u, 224u)));

}  // namespace
}  // namespace shardfeed
