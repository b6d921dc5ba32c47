#include "pipeline/rows/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "decode/images/pixels/augment_color.h"
#include "decode/images/pixels/augment_filter.h"
#include "decode/images/pixels/augment_geometry.h"

namespace shardfeed {
namespace augment {

namespace {

double Draw(const Range& range, Random& random) {
  return range.min + (range.max - range.min) * random.Uniform();
}

Color ColorOf(const Fill& fill) {
  Color color = {};
  for (size_t c = 0; c < 3; ++c) {
    if (!fill.empty()) color[c] = static_cast<float>(fill[fill.size() == 1 ? 0 : c]);
  }
  return color;
}
std::optional<Color> OptionalColor(const Fill& fill) {
  return fill.empty() ? std::nullopt : std::optional(ColorOf(fill));
}

// An image that goes through the steps, in one of two pieces of memory.
class Canvas {
 public:
  // `moved` may be null.
  Canvas(ImageView image, ImageAugmenter::Memory* memory, MovedPixels* moved)
      : image_(image), memory_(memory), moved_(moved) {}

  const ImageView& image() const { return image_; }
  ImageAugmenter::Memory* memory() const { return memory_; }

  void FlipLeftRight() {
    HorizontalFlip(image_);
    if (moved_ != nullptr) moved_->HorizontalFlip();
  }
  void FlipTopBottom() {
    VerticalFlip(image_);
    if (moved_ != nullptr) moved_->VerticalFlip();
  }
  void AddBorders(const Pad& a) {
    const int height = image_.height + a.padding[1] + a.padding[3];
    const int width = image_.width + a.padding[0] + a.padding[2];
    Replace(height, width, [&](ImageView from, ImageView to) {
      PadBorders(from, to, a.padding[0], a.padding[1], a.padding_mode, ColorOf(a.fill));
    });
    if (moved_ != nullptr) {
      moved_->PadBorders(height, width, a.padding[0], a.padding[1], a.padding_mode);
    }
  }
  void Transform(const augment::Transform& transform, Sampling interpolation, const Fill& fill) {
    Replace(image_.height, image_.width, [&](ImageView from, ImageView to) {
      Warp(from, to, transform, interpolation, OptionalColor(fill));
    });
    if (moved_ != nullptr) moved_->Warp(transform);
  }

 private:
  // Replaces the image by the result of `function(from, to)`, where `to` has the given size.
  template <typename Function>
  void Replace(int height, int width, Function function) {
    std::vector<uint8_t>& other = memory_->image[next_];
    next_ = 1 - next_;
    ImageView to = {nullptr, height, width, image_.channels};
    other.resize(to.bytes());
    to.data = other.data();
    function(image_, to);
    image_ = to;
  }

  ImageView image_;
  ImageAugmenter::Memory* const memory_;
  MovedPixels* const moved_;
  int next_ = 0;
};

// ---- The operations of RandAugment and TrivialAugmentWide

enum Operation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kNumOperations,
};

bool IsSigned(Operation operation) { return operation >= kShearX && operation <= kSharpness; }

// The largest magnitudes of RandAugment or TrivialAugmentWide.
struct Magnitudes {
  double shear;
  double translate_x;  // pixels
  double translate_y;
  double rotate;  // degrees
  double color;
  double posterize;  // bits to remove
};

double MagnitudeOf(Operation operation, const Magnitudes& most, int bin, int num_bins) {
  const double part = static_cast<double>(bin) / (num_bins - 1);
  switch (operation) {
    case kShearX:
    case kShearY:
      return most.shear * part;
    case kTranslateX:
      return most.translate_x * part;
    case kTranslateY:
      return most.translate_y * part;
    case kRotate:
      return most.rotate * part;
    case kBrightness:
    case kColor:
    case kContrast:
    case kSharpness:
      return most.color * part;
    case kPosterize:
      return std::nearbyint(8 - most.posterize * part);
    case kSolarize:
      return 1 - part;
    default:
      return 0;
  }
}

void Operate(Operation operation, double magnitude, Sampling interpolation, const Fill& fill,
             Canvas& canvas) {
  const ImageView& image = canvas.image();
  const auto affine = [&](AffineParameters parameters) {
    canvas.Transform(AffineTransform(parameters, image.height, image.width), interpolation, fill);
  };
  const double degrees = std::atan(magnitude) * 180 / std::acos(-1.0);
  switch (operation) {
    case kIdentity:
    case kNumOperations:
      return;
    case kShearX:
      return affine({.shear_x = degrees, .center = {{0, 0}}});
    case kShearY:
      return affine({.shear_y = degrees, .center = {{0, 0}}});
    case kTranslateX:
      return affine({.translate_x = std::trunc(magnitude)});
    case kTranslateY:
      return affine({.translate_y = std::trunc(magnitude)});
    case kRotate:
      return affine({.angle = -magnitude});
    case kBrightness:
      return AdjustBrightness(image, 1 + magnitude);
    case kColor:
      return AdjustSaturation(image, 1 + magnitude);
    case kContrast:
      return AdjustContrast(image, 1 + magnitude);
    case kSharpness:
      return AdjustSharpness(image, 1 + magnitude, &canvas.memory()->bytes);
    case kPosterize:
      return Posterize(image, static_cast<int>(magnitude));
    case kSolarize:
      return Solarize(image, 255 * magnitude);
    case kAutoContrast:
      return AutoContrast(image);
    case kEqualize:
      return Equalize(image);
  }
}

// A `bin` below 0 is drawn at random.
void OperateAtRandom(const Magnitudes& most, int bin, int num_bins, Sampling interpolation,
                     const Fill& fill, Canvas& canvas, Random& random) {
  const Operation operation = static_cast<Operation>(random.Below(kNumOperations));
  if (bin < 0) bin = static_cast<int>(random.Below(num_bins));
  double magnitude = MagnitudeOf(operation, most, bin, num_bins);
  if (IsSigned(operation) && random.Below(2) == 0) magnitude = -magnitude;
  Operate(operation, magnitude, interpolation, fill, canvas);
}

// ---- The augmentations

void Run(const std::vector<Augmentation>& steps, Canvas& canvas, Random& random);

void Run(const ColorJitter& a, Canvas& canvas, Random& random) {
  int order[4] = {0, 1, 2, 3};
  for (int i = 3; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  const double brightness = Draw(a.brightness, random);
  const double contrast = Draw(a.contrast, random);
  const double saturation = Draw(a.saturation, random);
  const double hue = Draw(a.hue, random);
  for (int which : order) {
    if (which == 0 && brightness != 1) AdjustBrightness(canvas.image(), brightness);
    if (which == 1 && contrast != 1) AdjustContrast(canvas.image(), contrast);
    if (which == 2 && saturation != 1) AdjustSaturation(canvas.image(), saturation);
    if (which == 3 && hue != 0) AdjustHue(canvas.image(), hue);
  }
}
void Run(const RandomGrayscale& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) ToGrayscale(canvas.image());
}
void Run(const GaussianBlur& a, Canvas& canvas, Random& random) {
  BlurGaussian(canvas.image(), a.kernel_size[0], a.kernel_size[1], Draw(a.sigma, random),
               &canvas.memory()->floats);
}
void Run(const RandomErasing& a, Canvas& canvas, Random& random) {
  if (!(random.Uniform() < a.p)) return;
  const ImageView& image = canvas.image();
  const double area = static_cast<double>(image.height) * image.width;
  const Range log_ratio = {std::log(a.ratio.min), std::log(a.ratio.max)};
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double erased = area * Draw(a.scale, random);
    const double ratio = std::exp(Draw(log_ratio, random));
    const double h = std::nearbyint(std::sqrt(erased * ratio));
    const double w = std::nearbyint(std::sqrt(erased / ratio));
    if (!(h < image.height && w < image.width)) continue;
    const int height = static_cast<int>(h);
    const int width = static_cast<int>(w);
    const int top = static_cast<int>(random.Below(image.height - height + 1));
    const int left = static_cast<int>(random.Below(image.width - width + 1));
    if (!a.random_value) return Erase(image, top, left, height, width, ColorOf(a.value));
    for (int y = top; y < top + height; ++y) {
      uint8_t* const row = image.row(y) + static_cast<size_t>(left) * image.channels;
      for (int i = 0; i < width * image.channels; ++i) row[i] = static_cast<uint8_t>(random());
    }
    return;
  }
}
void Run(const RandomHorizontalFlip& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) canvas.FlipLeftRight();
}
void Run(const RandomVerticalFlip& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) canvas.FlipTopBottom();
}
void Run(const Pad& a, Canvas& canvas, Random&) { canvas.AddBorders(a); }
void Run(const RandomRotation& a, Canvas& canvas, Random& random) {
  const double angle = Draw(a.degrees, random);
  canvas.Transform(AffineTransform({.angle = -angle, .center = a.center}, canvas.image().height,
                                   canvas.image().width),
                   a.interpolation, a.fill);
}
void Run(const RandomAffine& a, Canvas& canvas, Random& random) {
  const ImageView& image = canvas.image();
  AffineParameters p;
  p.angle = Draw(a.degrees, random);
  const double dx = a.translate[0] * image.width;
  const double dy = a.translate[1] * image.height;
  p.translate_x = std::nearbyint(Draw({-dx, dx}, random));
  p.translate_y = std::nearbyint(Draw({-dy, dy}, random));
  p.scale = Draw(a.scale, random);
  p.shear_x = Draw(a.shear[0], random);
  p.shear_y = Draw(a.shear[1], random);
  p.center = a.center;
  canvas.Transform(AffineTransform(p, image.height, image.width), a.interpolation, a.fill);
}
void Run(const RandomPerspective& a, Canvas& canvas, Random& random) {
  if (!(random.Uniform() < a.p)) return;
  const int width = canvas.image().width;
  const int height = canvas.image().height;
  const int half_width = width / 2;
  const int half_height = height / 2;
  const int dx = static_cast<int>(a.distortion_scale * half_width) + 1;
  const int dy = static_cast<int>(a.distortion_scale * half_height) + 1;
  const auto draw = [&](int from, int n) {
    return static_cast<double>(from + static_cast<int>(random.Below(n)));
  };
  std::array<std::array<double, 2>, 4> corners;
  for (int i = 0; i < 4; ++i) {
    const bool right = i == 1 || i == 2;
    corners[i][0] = draw(right ? width - dx : 0, dx);
    corners[i][1] = draw(i >= 2 ? height - dy : 0, dy);
  }
  const std::optional<Transform> transform = PerspectiveTransform(corners, height, width);
  if (transform) canvas.Transform(*transform, a.interpolation, a.fill);
}
void Run(const RandomInvert& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) Invert(canvas.image());
}
void Run(const RandomPosterize& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) Posterize(canvas.image(), a.bits);
}
void Run(const RandomSolarize& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) Solarize(canvas.image(), a.threshold);
}
void Run(const RandomAutocontrast& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) AutoContrast(canvas.image());
}
void Run(const RandomEqualize& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) Equalize(canvas.image());
}
void Run(const RandomAdjustSharpness& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) {
    AdjustSharpness(canvas.image(), a.sharpness_factor, &canvas.memory()->bytes);
  }
}
void Run(const RandAugment& a, Canvas& canvas, Random& random) {
  const Magnitudes most = {.shear = 0.3,
                           .translate_x = 150.0 / 331.0 * canvas.image().width,
                           .translate_y = 150.0 / 331.0 * canvas.image().height,
                           .rotate = 30,
                           .color = 0.9,
                           .posterize = 4};
  for (int i = 0; i < a.num_ops; ++i) {
    OperateAtRandom(most, a.magnitude, a.num_magnitude_bins, a.interpolation, a.fill, canvas,
                    random);
  }
}
void Run(const TrivialAugmentWide& a, Canvas& canvas, Random& random) {
  constexpr Magnitudes kMost = {.shear = 0.99,
                                .translate_x = 32,
                                .translate_y = 32,
                                .rotate = 135,
                                .color = 0.99,
                                .posterize = 6};
  OperateAtRandom(kMost, -1, a.num_magnitude_bins, a.interpolation, a.fill, canvas, random);
}
void Run(const RandomApply& a, Canvas& canvas, Random& random) {
  if (random.Uniform() < a.p) Run(a.transforms, canvas, random);
}

void Run(const std::vector<Augmentation>& steps, Canvas& canvas, Random& random) {
  for (const Augmentation& step : steps) {
    std::visit([&](const auto& s) { Run(s, canvas, random); }, step);
  }
}

}  // namespace
}  // namespace augment

absl::StatusOr<std::shared_ptr<const ImageAugmenter>> ImageAugmenter::Make(
    std::vector<Augmentation> steps, int height, int width, int channels) {
  const absl::StatusOr<augment::OutputSize> size = augment::Check(steps, height, width, channels);
  if (!size.ok()) return size.status();
  std::shared_ptr<ImageAugmenter> augmenter(new ImageAugmenter());
  augmenter->text_ = augment::Describe(steps);
  augmenter->steps_ = std::move(steps);
  augmenter->height_ = height;
  augmenter->width_ = width;
  augmenter->channels_ = channels;
  augmenter->output_shape_ = {size->height, size->width, channels};
  return augmenter;
}

void ImageAugmenter::Run(const uint8_t* from, uint8_t* to, Random& random, Memory* memory,
                         augment::MovedPixels* moved) const {
  // Steps work in place on the result's memory, or in one of two other pieces if they move pixels.
  ImageView image = {to, height_, width_, channels_};
  if (output_shape_[0] != height_ || output_shape_[1] != width_) {
    memory->first.resize(image.bytes());
    image.data = memory->first.data();
  }
  if (image.data != from) std::memcpy(image.data, from, image.bytes());
  augment::Canvas canvas(image, memory, moved);
  augment::Run(steps_, canvas, random);
  if (canvas.image().data != to) std::memcpy(to, canvas.image().data, canvas.image().bytes());
}

}  // namespace shardfeed
