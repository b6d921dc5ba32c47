#include "decode/images/pixels/resample.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include "gtest/gtest.h"
#include "opencv2/imgproc.hpp"

namespace shardfeed {
namespace {

// Waves of all lengths and some noise, as in real images.
std::vector<uint8_t> MakePixels(uint32_t width, uint32_t height, int channels, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<uint8_t> pixels(size_t{width} * height * channels);
  size_t i = 0;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double wave = std::sin(x * 0.02 * (c + 1)) + std::cos(y * 0.05 + x * y * 1e-4);
        const double value = 128 + 50 * wave + static_cast<double>(random() % 41) - 20;
        pixels[i++] = static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  }
  return pixels;
}

std::vector<uint8_t> Resize(const std::vector<uint8_t>& pixels, uint32_t width, uint32_t height,
                            int channels, uint32_t to_width, uint32_t to_height,
                            const ResampleOptions& options) {
  std::vector<uint8_t> out(size_t{to_width} * to_height * channels);
  Resampler resampler;
  resampler.Resize({pixels.data(), size_t{width} * channels, width, height}, channels, options,
                   to_width, to_height, out.data(), size_t{to_width} * channels);
  return out;
}

double Filter(Interpolation interpolation, double x, double a) {
  x = std::abs(x);
  if (interpolation == Interpolation::kBilinear) return x < 1 ? 1 - x : 0;
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

// The weights of all source pixels for output pixel `i` of `out`, in plain double arithmetic.
std::vector<double> Weights(uint32_t source, double begin, double size, uint32_t out, uint32_t i,
                            Interpolation interpolation, bool antialias) {
  std::vector<double> weights(source);
  const double scale = size / out;
  const double center = begin + (i + 0.5) * scale;
  if (interpolation == Interpolation::kNearest) {
    weights[std::min<size_t>(static_cast<size_t>(center), source - 1)] = 1;
    return weights;
  }
  double sum = 0;
  if (interpolation == Interpolation::kArea) {
    for (uint32_t k = 0; k < source; ++k) {
      weights[k] = std::max(0.0, std::min<double>(k + 1, center + scale / 2) -
                                     std::max<double>(k, center - scale / 2));
      sum += weights[k];
    }
  } else {
    const double stretch = antialias ? std::max(scale, 1.0) : 1;
    for (int k = -4; k < static_cast<int>(source) + 4; ++k) {
      if (antialias && (k < 0 || k >= static_cast<int>(source))) continue;
      const double w =
          Filter(interpolation, (k + 0.5 - center) / stretch, antialias ? -0.5 : -0.75);
      weights[std::clamp<int>(k, 0, source - 1)] += w;
      sum += w;
    }
  }
  for (double& w : weights) w /= sum;
  return weights;
}

// Antialiased cubic filters round after the first pass, along the rows.
bool RoundsBetween(const ResampleOptions& options) {
  return options.antialias && options.interpolation == Interpolation::kBicubic;
}

// The largest and the mean distance of `out` from the exact weighted means.
std::pair<double, double> Distance(const std::vector<uint8_t>& pixels, uint32_t width,
                                   uint32_t height, int channels, const std::vector<uint8_t>& out,
                                   uint32_t to_width, uint32_t to_height,
                                   const ResampleOptions& options) {
  const bool all = options.width == 0;
  std::vector<std::vector<double>> columns;
  for (uint32_t x = 0; x < to_width; ++x) {
    columns.push_back(Weights(width, all ? 0 : options.x, all ? width : options.width, to_width,
                              options.flip ? to_width - 1 - x : x, options.interpolation,
                              options.antialias));
  }
  double worst = 0;
  double sum = 0;
  for (uint32_t y = 0; y < to_height; ++y) {
    const std::vector<double> rows =
        Weights(height, all ? 0 : options.y, all ? height : options.height, to_height, y,
                options.interpolation, options.antialias);
    for (uint32_t x = 0; x < to_width; ++x) {
      for (int c = 0; c < channels; ++c) {
        double value = 0;
        for (uint32_t j = 0; j < height; ++j) {
          if (rows[j] == 0) continue;
          double of_row = 0;
          for (uint32_t k = 0; k < width; ++k) {
            if (columns[x][k] == 0) continue;
            of_row += columns[x][k] * pixels[(size_t{j} * width + k) * channels + c];
          }
          if (RoundsBetween(options)) of_row = std::clamp(std::round(of_row), 0.0, 255.0);
          value += rows[j] * of_row;
        }
        value = std::clamp(value, 0.0, 255.0);
        const double distance = std::abs(value - out[(size_t{y} * to_width + x) * channels + c]);
        worst = std::max(worst, distance);
        sum += distance;
      }
    }
  }
  return {worst, sum / static_cast<double>(out.size())};
}

struct Case {
  uint32_t width, height, to_width, to_height;
};

class ResampleTest : public ::testing::TestWithParam<std::tuple<Case, Interpolation, bool, int>> {};

TEST_P(ResampleTest, IsTheWeightedMean) {
  const auto& [c, interpolation, antialias, channels] = GetParam();
  const std::vector<uint8_t> pixels = MakePixels(c.width, c.height, channels);
  for (bool flip : {false, true}) {
    const ResampleOptions options = {
        .interpolation = interpolation, .antialias = antialias, .flip = flip};
    const std::vector<uint8_t> out =
        Resize(pixels, c.width, c.height, channels, c.to_width, c.to_height, options);
    const auto [worst, mean] =
        Distance(pixels, c.width, c.height, channels, out, c.to_width, c.to_height, options);
    // Rounded to nearest, except for the sixty-fourths between the passes. A value between two
    // levels may be rounded to either after the first pass, and change the result by its weight.
    EXPECT_LT(worst, RoundsBetween(options)                     ? 1.75
                     : interpolation == Interpolation::kBicubic ? 0.75
                                                                : 0.65);
    if (out.size() > 200) {
      EXPECT_LT(mean, RoundsBetween(options) ? 0.3 : 0.27);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, ResampleTest,
    ::testing::Combine(::testing::Values(Case{91, 73, 32, 32}, Case{40, 50, 41, 33},
                                         Case{7, 5, 31, 16}, Case{1, 1, 9, 4}, Case{64, 64, 1, 1},
                                         Case{300, 2, 7, 2}, Case{2, 300, 3, 7},
                                         Case{48, 48, 48, 48}, Case{129, 65, 16, 63}),
                       ::testing::Values(Interpolation::kNearest, Interpolation::kBilinear,
                                         Interpolation::kBicubic, Interpolation::kArea),
                       ::testing::Bool(), ::testing::Values(1, 3)));

TEST(ResampleTest, PartsMayBeginAndEndInsideOfAPixel) {
  const std::vector<uint8_t> pixels = MakePixels(61, 47, 3);
  for (bool antialias : {false, true}) {
    const ResampleOptions options = {
        .antialias = antialias, .x = 3.25, .y = 10.5, .width = 40.125, .height = 36.5};
    const std::vector<uint8_t> out = Resize(pixels, 61, 47, 3, 24, 17, options);
    EXPECT_LT(Distance(pixels, 61, 47, 3, out, 24, 17, options).first, 0.65);
  }
}

TEST(ResampleTest, SameSizeIsACopy) {
  const std::vector<uint8_t> pixels = MakePixels(57, 33, 3);
  for (Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                      Interpolation::kBicubic, Interpolation::kArea}) {
    EXPECT_EQ(Resize(pixels, 57, 33, 3, 57, 33, {.interpolation = interpolation}), pixels);
  }
}

TEST(ResampleTest, OneColorStaysThatColor) {
  for (int level = 0; level < 256; ++level) {
    const std::vector<uint8_t> pixels(37 * 41 * 3, static_cast<uint8_t>(level));
    for (Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                        Interpolation::kBicubic, Interpolation::kArea}) {
      for (bool antialias : {false, true}) {
        const std::vector<uint8_t> out = Resize(
            pixels, 37, 41, 3, 16, 23, {.interpolation = interpolation, .antialias = antialias});
        EXPECT_EQ(out, std::vector<uint8_t>(out.size(), static_cast<uint8_t>(level)));
      }
    }
  }
}

TEST(ResampleTest, OneColorStaysThatColorHoweverMuchItShrinks) {
  const Case cases[] = {{255, 255, 16, 16}, {3000, 9, 3, 9}, {9, 8000, 2, 8}, {500, 300, 4, 60}};
  for (const Case& c : cases) {
    for (int level = 0; level < 256; level += 3) {
      const std::vector<uint8_t> pixels(size_t{c.width} * c.height, static_cast<uint8_t>(level));
      for (Interpolation interpolation :
           {Interpolation::kBilinear, Interpolation::kBicubic, Interpolation::kArea}) {
        const std::vector<uint8_t> out = Resize(pixels, c.width, c.height, 1, c.to_width,
                                                c.to_height, {.interpolation = interpolation});
        ASSERT_EQ(out, std::vector<uint8_t>(out.size(), static_cast<uint8_t>(level)))
            << c.width << " x " << c.height << " to " << c.to_width << " x " << c.to_height
            << ", interpolation " << static_cast<int>(interpolation);
      }
    }
  }
}

TEST(ResampleTest, PlainBilinearIsWithinOneOfOpenCvs) {
  for (const Case& c : {Case{500, 375, 224, 224}, Case{90, 120, 224, 224}, Case{224, 224, 96, 160},
                        Case{3, 2, 30, 20}}) {
    const std::vector<uint8_t> pixels = MakePixels(c.width, c.height, 3);
    const std::vector<uint8_t> out =
        Resize(pixels, c.width, c.height, 3, c.to_width, c.to_height, {.antialias = false});
    cv::Mat reference;
    cv::resize(cv::Mat(c.height, c.width, CV_8UC3, const_cast<uint8_t*>(pixels.data())), reference,
               {static_cast<int>(c.to_width), static_cast<int>(c.to_height)}, 0, 0,
               cv::INTER_LINEAR);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_LE(std::abs(out[i] - reference.data[i]), 1) << "value " << i;
    }
  }
}

TEST(ResampleTest, AreaIsWithinOneOfOpenCvsWhenItShrinks) {
  for (const Case& c : {Case{500, 375, 224, 224}, Case{300, 400, 100, 100}}) {
    const std::vector<uint8_t> pixels = MakePixels(c.width, c.height, 3);
    const std::vector<uint8_t> out = Resize(pixels, c.width, c.height, 3, c.to_width, c.to_height,
                                            {.interpolation = Interpolation::kArea});
    cv::Mat reference;
    cv::resize(cv::Mat(c.height, c.width, CV_8UC3, const_cast<uint8_t*>(pixels.data())), reference,
               {static_cast<int>(c.to_width), static_cast<int>(c.to_height)}, 0, 0, cv::INTER_AREA);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_LE(std::abs(out[i] - reference.data[i]), 1) << "value " << i;
    }
  }
}

TEST(ResampleTest, NothingOutsideOfThePixelsIsTouched) {
  // Rows with a gap, at the end of their memory (for AddressSanitizer), into rows with a gap.
  Resampler resampler;
  for (const auto& [channels, interpolation] : {std::pair{1, Interpolation::kBilinear},
                                                {3, Interpolation::kBilinear},
                                                {1, Interpolation::kBicubic},
                                                {3, Interpolation::kBicubic}}) {
    const ResampleOptions options = {.interpolation = interpolation};
    for (uint32_t width : {1u, 2u, 5u, 16u, 33u}) {
      for (uint32_t to_width : {1u, 2u, 7u, 16u}) {
        const size_t row = width * channels + 5;
        const std::vector<uint8_t> pixels(row * 2 + width * channels, 100);
        const size_t to_row = to_width * channels + 3;
        std::vector<uint8_t> out(to_row + to_width * channels, 7);
        resampler.Resize({pixels.data(), row, width, 3}, channels, options, to_width, 2, out.data(),
                         to_row);
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_EQ(out[i], i % to_row < to_width * channels ? 100 : 7) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardfeed
