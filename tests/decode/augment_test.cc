// Compares augmentations with torchvision's results for the same images, which
// testdata/torchvision/make.py recorded.

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "decode/images/pixels/augment_color.h"
#include "decode/images/pixels/augment_filter.h"
#include "decode/images/pixels/augment_geometry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace shardfeed::augment {
namespace {

using Json = nlohmann::json;
using ::testing::Each;

std::vector<uint8_t> FromHex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

ImageView View(std::vector<uint8_t>& bytes, const Json& shape) {
  return {bytes.data(), shape[0], shape[1], shape[2]};
}

PaddingMode ModeOf(const std::string& name) {
  return name == "constant"  ? PaddingMode::kConstant
         : name == "edge"    ? PaddingMode::kEdge
         : name == "reflect" ? PaddingMode::kReflect
                             : PaddingMode::kSymmetric;
}

// Applies the case's augmentation to `image`; `to` has memory for the result.
void Apply(const Json& c, ImageView image, ImageView to) {
  const std::string name = c["function"];
  const Json& a = c["arguments"];
  std::vector<float> floats;
  std::vector<uint8_t> bytes;
  if (name == "adjust_brightness") return AdjustBrightness(image, a["brightness_factor"]);
  if (name == "adjust_contrast") return AdjustContrast(image, a["contrast_factor"]);
  if (name == "adjust_saturation") return AdjustSaturation(image, a["saturation_factor"]);
  if (name == "adjust_hue") return AdjustHue(image, a["hue_factor"]);
  if (name == "adjust_sharpness") return AdjustSharpness(image, a["sharpness_factor"], &bytes);
  if (name == "rgb_to_grayscale") return ToGrayscale(image);
  if (name == "invert") return Invert(image);
  if (name == "posterize") return Posterize(image, a["bits"]);
  if (name == "solarize") return Solarize(image, a["threshold"]);
  if (name == "autocontrast") return AutoContrast(image);
  if (name == "equalize") return Equalize(image);
  if (name == "horizontal_flip") return HorizontalFlip(image);
  if (name == "vertical_flip") return VerticalFlip(image);
  if (name == "gaussian_blur") {
    return BlurGaussian(image, a["kernel_size"][0], a["kernel_size"][1], a["sigma"][0], &floats);
  }
  if (name == "erase") {
    const float v = a["v"][0];
    return Erase(image, a["i"], a["j"], a["h"], a["w"], {v, v, v});
  }
  if (name == "pad") {
    return PadBorders(image, to, a["padding"][0], a["padding"][1], ModeOf(a["padding_mode"]),
                      {9, 9, 9});
  }
  std::optional<Color> fill;
  if (!c["fill"].is_null()) fill = {c["fill"], c["fill"], c["fill"]};
  std::optional<Transform> transform;
  if (name.starts_with("rotate")) {
    transform = AffineTransform({.angle = -a["angle"].get<double>()}, image.height, image.width);
  } else if (name.starts_with("affine")) {
    AffineParameters p = {.angle = a["angle"],
                          .translate_x = a["translate"][0],
                          .translate_y = a["translate"][1],
                          .scale = a["scale"],
                          .shear_x = a["shear"][0],
                          .shear_y = a["shear"][1]};
    if (!a["center"].is_null()) p.center = {a["center"][0], a["center"][1]};
    transform = AffineTransform(p, image.height, image.width);
  } else {
    const double right = image.width - 1;
    const double bottom = image.height - 1;
    transform =
        PerspectiveTransform({{{2, 1}, {right - 2, 2}, {right - 1, bottom - 3}, {1, bottom - 1}}},
                             image.height, image.width);
  }
  ASSERT_TRUE(transform.has_value());
  Warp(image, to, *transform, name.ends_with("bilinear") ? Sampling::kBilinear : Sampling::kNearest,
       fill);
}

// If binary32 numbers are added in another order, a result may fall on the other side of an integer
// or, for `nearest`, a position on that of a pixel.
bool IsExact(const std::string& name) {
  return name != "adjust_hue" && name != "gaussian_blur" && name.find(' ') == name.npos;
}

TEST(AugmentTest, AsTorchvision) {
  std::ifstream file("testdata/torchvision/augment.json");
  const Json cases = Json::parse(file);
  ASSERT_GT(cases.size(), 40);
  for (const Json& c : cases) {
    SCOPED_TRACE(c["function"].get<std::string>() + " " + c["arguments"].dump() + " " +
                 c["shape"].dump());
    std::vector<uint8_t> image = FromHex(c["picture"]);
    const std::vector<uint8_t> expected = FromHex(c["result"]);
    std::vector<uint8_t> other(expected.size());
    Apply(c, View(image, c["shape"]), View(other, c["result_shape"]));
    const std::string name = c["function"];
    const bool moves = name == "pad" || name.find(' ') != name.npos;
    const std::vector<uint8_t>& result = moves ? other : image;
    ASSERT_EQ(result.size(), expected.size());
    size_t differ = 0;
    int most = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      differ += result[i] != expected[i];
      most = std::max(most, std::abs(result[i] - expected[i]));
    }
    if (IsExact(name)) {
      EXPECT_EQ(differ, 0) << "by up to " << most;
    } else {
      EXPECT_LE(differ, std::max<size_t>(1, expected.size() / 100)) << "by up to " << most;
      EXPECT_LE(most, name.ends_with("nearest") ? 255 : 1);
    }
  }
}

TEST(AugmentTest, OddSizesAreSafe) {
  for (int channels : {1, 3}) {
    for (int height : {1, 2, 3, 17}) {
      for (int width : {1, 2, 3, 301}) {
        std::vector<uint8_t> from(static_cast<size_t>(height) * width * channels, 100);
        std::vector<uint8_t> to(from.size());
        std::vector<float> floats;
        std::vector<uint8_t> bytes;
        const ImageView image = {from.data(), height, width, channels};
        const ImageView other = {to.data(), height, width, channels};
        BlurGaussian(image, width > 2 ? 3 : 1, height > 2 ? 5 - 2 * (height == 3) : 1, 1.5,
                     &floats);
        AdjustSharpness(image, 2, &bytes);
        AdjustContrast(image, 1.5);
        AdjustSaturation(image, 1);
        Equalize(image);
        AutoContrast(image);
        HorizontalFlip(image);
        VerticalFlip(image);
        // A uniform image stays uniform, except for gray, whose weights add up to 0.9999.
        for (uint8_t value : from) EXPECT_NEAR(value, 100, 1);
        for (Sampling interpolation : {Sampling::kNearest, Sampling::kBilinear}) {
          Warp(image, other, AffineTransform({.angle = 123, .scale = 1e-9}, height, width),
               interpolation, Color{7, 7, 7});
          Warp(image, other, AffineTransform({}, height, width), interpolation, Color{7, 7, 7});
          EXPECT_EQ(from, to);
          // Divides by zero in the middle of the image.
          Warp(image, other, {1, 0, 0, 0, 1, 0, -1.0 / 1.5, 0}, interpolation, std::nullopt);
        }
      }
    }
  }
}

TEST(AugmentTest, CornersMustMakeAQuadrilateral) {
  EXPECT_TRUE(PerspectiveTransform({{{0, 0}, {9, 0}, {9, 9}, {0, 9}}}, 10, 10).has_value());
  EXPECT_FALSE(PerspectiveTransform({{{0, 0}, {0, 0}, {9, 9}, {0, 9}}}, 10, 10).has_value());
  EXPECT_FALSE(PerspectiveTransform({{{0, 0}, {0, 0}, {0, 0}, {0, 0}}}, 1, 1).has_value());
}

TEST(AugmentTest, WhatIsOutsideIsFilled) {
  std::vector<uint8_t> from(5 * 4 * 3, 50);
  std::vector<uint8_t> to(from.size());
  Warp({from.data(), 5, 4, 3}, {to.data(), 5, 4, 3}, AffineTransform({.translate_x = 10}, 5, 4),
       Sampling::kNearest, Color{200, 200, 200});
  EXPECT_THAT(to, Each(200));
}

}  // namespace
}  // namespace shardfeed::augment
