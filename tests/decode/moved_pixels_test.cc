#include "decode/images/pixels/moved_pixels.h"

#include <algorithm>
#include <random>
#include <vector>

#include "decode/images/pixels/augment_geometry.h"
#include "decode/images/pixels/image_view.h"
#include "gtest/gtest.h"

namespace shardfeed::augment {
namespace {

// An image, and what has moved its pixels.
class MovedPixelsTest : public ::testing::Test {
 protected:
  static constexpr int kHeight = 31;
  static constexpr int kWidth = 47;

  MovedPixelsTest() {
    original_.resize(kHeight * kWidth * 3);
    for (uint8_t& value : original_) value = static_cast<uint8_t>(random_());
    pixels_ = original_;
    image_ = {pixels_.data(), kHeight, kWidth, 3};
    moved_.Begin(kHeight, kWidth, /*gathers=*/true);
  }

  double Draw(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  void WarpBoth(const Transform& transform) {
    std::vector<uint8_t> result(image_.bytes());
    const ImageView to = {result.data(), image_.height, image_.width, 3};
    Warp(image_, to, transform, Sampling::kNearest, Color{9, 8, 7});
    Become(std::move(result), image_.height, image_.width);
    moved_.Warp(transform);
  }
  void PadBoth(PaddingMode mode) {
    const int height = image_.height + 5;
    const int width = image_.width + 9;
    std::vector<uint8_t> result(size_t{3} * height * width);
    PadBorders(image_, {result.data(), height, width, 3}, 3, 4, mode, Color{9, 8, 7});
    Become(std::move(result), height, width);
    moved_.PadBorders(height, width, 3, 4, mode);
  }
  void Become(std::vector<uint8_t> pixels, int height, int width) {
    pixels_ = std::move(pixels);
    image_ = {pixels_.data(), height, width, 3};
  }
  // One of all kinds of moves.
  void MoveBoth(int kind) {
    if (kind == 0) {
      HorizontalFlip(image_);
      moved_.HorizontalFlip();
    } else if (kind == 1) {
      VerticalFlip(image_);
      moved_.VerticalFlip();
    } else if (kind == 2) {
      WarpBoth(AffineTransform({.angle = Draw(-180, 180),
                                .translate_x = Draw(-9, 9),
                                .translate_y = Draw(-9, 9),
                                .scale = Draw(0.5, 2),
                                .shear_x = Draw(-20, 20),
                                .shear_y = Draw(-20, 20)},
                               image_.height, image_.width));
    } else if (kind == 3) {
      const double right = image_.width - 1;
      const double bottom = image_.height - 1;
      WarpBoth(*PerspectiveTransform({{{Draw(0, 10), Draw(0, 10)},
                                       {right - Draw(0, 10), Draw(0, 10)},
                                       {right - Draw(0, 10), bottom - Draw(0, 10)},
                                       {Draw(0, 10), bottom - Draw(0, 10)}}},
                                     image_.height, image_.width));
    } else {
      PadBoth(static_cast<PaddingMode>(kind - 4));
    }
  }

  std::mt19937 random_{5};
  std::vector<uint8_t> original_;
  std::vector<uint8_t> pixels_;
  ImageView image_;
  MovedPixels moved_;
};

TEST_F(MovedPixelsTest, GatherFollowsTheImage) {
  for (int run = 0; run < 60; ++run) {
    pixels_ = original_;
    image_ = {pixels_.data(), kHeight, kWidth, 3};
    moved_.Begin(kHeight, kWidth, /*gathers=*/true);
    for (int i = 0; i < 1 + run % 4; ++i) MoveBoth(static_cast<int>(random_() % 8));
    ASSERT_EQ(moved_.height(), image_.height);
    ASSERT_EQ(moved_.width(), image_.width);
    std::vector<uint8_t> gathered(image_.bytes());
    const char fill[] = {9, 8, 7};
    moved_.Gather(reinterpret_cast<const char*>(original_.data()), 3, fill,
                  reinterpret_cast<char*>(gathered.data()));
    ASSERT_EQ(gathered, pixels_) << run;
    // Pixels of other sizes.
    for (size_t bytes : {1, 2, 4, 8, 12}) {
      std::vector<char> wide(size_t{1} * kHeight * kWidth * bytes);
      for (size_t p = 0; p < wide.size(); ++p)
        wide[p] = static_cast<char>(original_[p / bytes * 3]);
      std::vector<char> result(image_.bytes() / 3 * bytes);
      moved_.Gather(wide.data(), bytes, std::vector<char>(bytes, 9).data(), result.data());
      for (size_t p = 0; p < result.size(); ++p) {
        ASSERT_EQ(static_cast<uint8_t>(result[p]), pixels_[p / bytes * 3]);
      }
    }
  }
}

TEST_F(MovedPixelsTest, ProjectionSaysWherePointsWent) {
  for (int run = 0; run < 200; ++run) {
    moved_.Begin(kHeight, kWidth, /*gathers=*/true);
    for (int i = 0; i < 1 + run % 3; ++i) MoveBoth(static_cast<int>(random_() % 5));
    std::vector<int32_t> numbers(size_t{1} * kHeight * kWidth);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i);
    std::vector<int32_t> result(size_t{1} * moved_.height() * moved_.width());
    const int32_t none = -1;
    moved_.Gather(reinterpret_cast<const char*>(numbers.data()), 4,
                  reinterpret_cast<const char*>(&none), reinterpret_cast<char*>(result.data()));
    // The pixel at the place of an original pixel's middle shows that pixel or one beside it.
    for (int i = 0; i < kHeight * kWidth; i += 7) {
      const Projection::Point p = moved_.projection().Apply(i % kWidth + 0.5, i / kWidth + 0.5);
      ASSERT_TRUE(p.in_front);
      if (!(p.x >= 0 && p.x < moved_.width() && p.y >= 0 && p.y < moved_.height())) continue;
      const int32_t shown = result[static_cast<int>(p.y) * moved_.width() + static_cast<int>(p.x)];
      if (shown < 0) continue;
      EXPECT_LE(std::abs(shown % kWidth - i % kWidth), 5) << run;
      EXPECT_LE(std::abs(shown / kWidth - i / kWidth), 5) << run;
    }
  }
}

TEST(ProjectionTest, PointsBehindTheHorizon) {
  // x' = x / (1 - x / 10), whose horizon is x = 10; its inverse is x' / (1 + x' / 10).
  const Projection p = Projection::InverseOf({1, 0, 0, 0, 1, 0, 0.1, 0});
  EXPECT_NEAR(p.Apply(5, 3).x, 10, 1e-12);
  EXPECT_NEAR(p.Apply(5, 3).y, 6, 1e-12);
  EXPECT_TRUE(p.Apply(5, 3).in_front);
  EXPECT_NEAR(p.Apply(20, 3).x, -20, 1e-12);
  EXPECT_FALSE(p.Apply(20, 3).in_front);
  EXPECT_FALSE(p.Apply(10, 3).in_front);
  const Projection::Point scaled = p.Then(Projection::ScaleAndShift(2, 1, 3, -1)).Apply(5, 3);
  EXPECT_NEAR(scaled.x, 21, 1e-12);
  EXPECT_NEAR(scaled.y, 17, 1e-12);
}

}  // namespace
}  // namespace shardfeed::augment
