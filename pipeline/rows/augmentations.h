// Random augmentations of images, named and defined as in torchvision.transforms.v2;
// docs/augment.md has them in a table.
//
//   ds.Augment("image", {augment::RandomHorizontalFlip{},
//                        augment::RandAugment{.magnitude = 7},
//                        augment::RandomErasing{.p = 0.25}},
//              /*seed=*/1)

#ifndef SHARDFEED_PIPELINE_ROWS_AUGMENTATIONS_H_
#define SHARDFEED_PIPELINE_ROWS_AUGMENTATIONS_H_

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "decode/images/augment_geometry.h"

namespace shardfeed {
namespace augment {

// Numbers are drawn evenly from [min, max].
struct Range {
  double min = 0;
  double max = 0;
};

// A value for all channels, or one for each, 0 to 255.
using Fill = std::vector<double>;

// Brightness, contrast, saturation and hue, in random order. A `brightness` of torchvision that is
// a number b is the range {max(0, 1 - b), 1 + b} here, a `hue` h is {-h, h}. What is left as it is,
// is not changed.
struct ColorJitter {
  Range brightness = {1, 1};  // factors, not negative
  Range contrast = {1, 1};
  Range saturation = {1, 1};
  Range hue = {0, 0};  // within [-0.5, 0.5]
};
struct RandomGrayscale {
  double p = 0.1;
};
struct GaussianBlur {
  std::array<int, 2> kernel_size = {3, 3};  // width, height in pixels, odd
  Range sigma = {0.1, 2};                   // in pixels
};
// A rectangle of `scale` times the image's area and a ratio of height to width within `ratio`,
// whose logarithm is drawn evenly.
struct RandomErasing {
  double p = 0.5;
  Range scale = {0.02, 0.33};
  Range ratio = {0.3, 3.3};
  Fill value = {0};
  // Each value is drawn by itself from 0 to 255. (torchvision's are normal, for images that are
  // normalised before.)
  bool random_value = false;
};
struct RandomHorizontalFlip {
  double p = 0.5;
};
struct RandomVerticalFlip {
  double p = 0.5;
};
// The image becomes larger.
struct Pad {
  std::array<int, 4> padding = {0, 0, 0, 0};  // left, top, right, bottom, in pixels
  Fill fill = {0};
  PaddingMode padding_mode = PaddingMode::kConstant;
};
struct RandomRotation {
  Range degrees;  // counter-clockwise
  Sampling interpolation = Sampling::kNearest;
  std::optional<std::array<double, 2>> center;  // x, y; none: the middle
  Fill fill = {0};                              // empty: torchvision's None
};
struct RandomAffine {
  Range degrees;                             // clockwise
  std::array<double, 2> translate = {0, 0};  // at most, of the width and of the height
  Range scale = {1, 1};
  std::array<Range, 2> shear = {};  // degrees along x and along y
  Sampling interpolation = Sampling::kNearest;
  Fill fill = {0};
  std::optional<std::array<double, 2>> center;
};
struct RandomPerspective {
  double distortion_scale = 0.5;  // 0 to 1
  double p = 0.5;
  Sampling interpolation = Sampling::kBilinear;
  Fill fill = {0};
};
struct RandomInvert {
  double p = 0.5;
};
struct RandomPosterize {
  int bits = 4;
  double p = 0.5;
};
struct RandomSolarize {
  double threshold = 128;
  double p = 0.5;
};
struct RandomAutocontrast {
  double p = 0.5;
};
struct RandomEqualize {
  double p = 0.5;
};
struct RandomAdjustSharpness {
  double sharpness_factor = 2;
  double p = 0.5;
};
// `num_ops` of 14 operations, each drawn anew, at `magnitude` of `num_magnitude_bins` (from 0).
struct RandAugment {
  int num_ops = 2;
  int magnitude = 9;
  int num_magnitude_bins = 31;
  Sampling interpolation = Sampling::kNearest;
  Fill fill;
};
// One of 14 operations, its magnitude drawn too.
struct TrivialAugmentWide {
  int num_magnitude_bins = 31;
  Sampling interpolation = Sampling::kNearest;
  Fill fill;
};

struct Augmentation;
// All of `transforms`, or none.
struct RandomApply {
  std::vector<Augmentation> transforms;
  double p = 0.5;
};

struct Augmentation
    : std::variant<ColorJitter, RandomGrayscale, GaussianBlur, RandomErasing, RandomHorizontalFlip,
                   RandomVerticalFlip, Pad, RandomRotation, RandomAffine, RandomPerspective,
                   RandomInvert, RandomPosterize, RandomSolarize, RandomAutocontrast,
                   RandomEqualize, RandomAdjustSharpness, RandAugment, TrivialAugmentWide,
                   RandomApply> {
  using variant::variant;
  // Out of line: as the type contains itself, compilers would take them far into their callers.
  Augmentation(const Augmentation&);
  Augmentation(Augmentation&&) noexcept;
  Augmentation& operator=(const Augmentation&);
  Augmentation& operator=(Augmentation&&) noexcept;
  ~Augmentation();
};

// "RandomHorizontalFlip(p=0.5), RandomErasing(p=0.25, ...)", as torchvision would write them.
std::string Describe(const std::vector<Augmentation>& steps);

struct OutputSize {
  int height = 0;
  int width = 0;
};
// Of images [height, width, channels]. InvalidArgument: a parameter out of its range, or an
// image too small; the message names both.
absl::StatusOr<OutputSize> Check(const std::vector<Augmentation>& steps, int height, int width,
                                 int channels);

}  // namespace augment

using augment::Augmentation;

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_AUGMENTATIONS_H_
