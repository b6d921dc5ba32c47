#include "pipeline/rows/augmentations.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace shardfeed {
namespace augment {

Augmentation::Augmentation(const Augmentation&) = default;
Augmentation::Augmentation(Augmentation&&) noexcept = default;
Augmentation& Augmentation::operator=(const Augmentation&) = default;
Augmentation& Augmentation::operator=(Augmentation&&) noexcept = default;
Augmentation::~Augmentation() = default;

namespace {

std::string Text(const Range& range) { return fmt::format("[{}, {}]", range.min, range.max); }
std::string Text(const Fill& fill) {
  return fill.empty() ? "None" : fmt::format("[{}]", fmt::join(fill, ", "));
}
std::string Text(const std::optional<std::array<double, 2>>& center) {
  return center ? fmt::format("[{}, {}]", (*center)[0], (*center)[1]) : "None";
}
std::string_view Text(Sampling interpolation) {
  return interpolation == Sampling::kNearest ? "nearest" : "bilinear";
}
std::string_view Text(PaddingMode mode) {
  switch (mode) {
    case PaddingMode::kConstant:
      return "constant";
    case PaddingMode::kEdge:
      return "edge";
    case PaddingMode::kReflect:
      return "reflect";
    case PaddingMode::kSymmetric:
      return "symmetric";
  }
  return "";
}

std::string Describe(const ColorJitter& a) {
  return fmt::format("ColorJitter(brightness={}, contrast={}, saturation={}, hue={})",
                     Text(a.brightness), Text(a.contrast), Text(a.saturation), Text(a.hue));
}
std::string Describe(const RandomGrayscale& a) { return fmt::format("RandomGrayscale(p={})", a.p); }
std::string Describe(const GaussianBlur& a) {
  return fmt::format("GaussianBlur(kernel_size=[{}, {}], sigma={})", a.kernel_size[0],
                     a.kernel_size[1], Text(a.sigma));
}
std::string Describe(const RandomErasing& a) {
  return fmt::format("RandomErasing(p={}, scale={}, ratio={}, value={})", a.p, Text(a.scale),
                     Text(a.ratio), a.random_value ? "random" : Text(a.value));
}
std::string Describe(const RandomHorizontalFlip& a) {
  return fmt::format("RandomHorizontalFlip(p={})", a.p);
}
std::string Describe(const RandomVerticalFlip& a) {
  return fmt::format("RandomVerticalFlip(p={})", a.p);
}
std::string Describe(const Pad& a) {
  return fmt::format("Pad(padding=[{}], fill={}, padding_mode={})", fmt::join(a.padding, ", "),
                     Text(a.fill), Text(a.padding_mode));
}
std::string Describe(const RandomRotation& a) {
  return fmt::format("RandomRotation(degrees={}, interpolation={}, center={}, fill={})",
                     Text(a.degrees), Text(a.interpolation), Text(a.center), Text(a.fill));
}
std::string Describe(const RandomAffine& a) {
  return fmt::format(
      "RandomAffine(degrees={}, translate=[{}, {}], scale={}, shear=[{}, {}], interpolation={}, "
      "fill={}, center={})",
      Text(a.degrees), a.translate[0], a.translate[1], Text(a.scale), Text(a.shear[0]),
      Text(a.shear[1]), Text(a.interpolation), Text(a.fill), Text(a.center));
}
std::string Describe(const RandomPerspective& a) {
  return fmt::format("RandomPerspective(distortion_scale={}, p={}, interpolation={}, fill={})",
                     a.distortion_scale, a.p, Text(a.interpolation), Text(a.fill));
}
std::string Describe(const RandomInvert& a) { return fmt::format("RandomInvert(p={})", a.p); }
std::string Describe(const RandomPosterize& a) {
  return fmt::format("RandomPosterize(bits={}, p={})", a.bits, a.p);
}
std::string Describe(const RandomSolarize& a) {
  return fmt::format("RandomSolarize(threshold={}, p={})", a.threshold, a.p);
}
std::string Describe(const RandomAutocontrast& a) {
  return fmt::format("RandomAutocontrast(p={})", a.p);
}
std::string Describe(const RandomEqualize& a) { return fmt::format("RandomEqualize(p={})", a.p); }
std::string Describe(const RandomAdjustSharpness& a) {
  return fmt::format("RandomAdjustSharpness(sharpness_factor={}, p={})", a.sharpness_factor, a.p);
}
std::string Describe(const RandAugment& a) {
  return fmt::format(
      "RandAugment(num_ops={}, magnitude={}, num_magnitude_bins={}, interpolation={}, fill={})",
      a.num_ops, a.magnitude, a.num_magnitude_bins, Text(a.interpolation), Text(a.fill));
}
std::string Describe(const TrivialAugmentWide& a) {
  return fmt::format("TrivialAugmentWide(num_magnitude_bins={}, interpolation={}, fill={})",
                     a.num_magnitude_bins, Text(a.interpolation), Text(a.fill));
}
std::string Describe(const RandomApply& a) {
  return fmt::format("RandomApply([{}], p={})", Describe(a.transforms), a.p);
}
std::string Describe(const Augmentation& a) {
  return std::visit([](const auto& step) { return Describe(step); }, a);
}
// Checks parameters against the size of the image, and computes the size of the result. Keeps the
// first complaint.
class Checker {
 public:
  Checker(int height, int width, int channels)
      : height_(height), width_(width), channels_(channels) {}

  int height() const { return height_; }
  int width() const { return width_; }
  const std::string& complaint() const { return complaint_; }

  void Check(const std::vector<Augmentation>& steps) {
    for (const Augmentation& step : steps) {
      std::visit([this](const auto& s) { Check(s); }, step);
      if (complaint_.empty()) continue;
      if (!complained_) complaint_ = fmt::format("{}: {}", Describe(step), complaint_);
      complained_ = true;
      return;
    }
  }

 private:
  void Expect(bool fine, std::string complaint) {
    if (!fine && complaint_.empty()) complaint_ = std::move(complaint);
  }
  void CheckProbability(double p) { Expect(p >= 0 && p <= 1, "p must be from 0 to 1"); }
  void CheckRange(std::string_view name, const Range& range, double least, double most) {
    Expect(
        range.min >= least && range.min <= range.max && range.max <= most,
        fmt::format("{} must be two numbers from {} to {} in ascending order", name, least, most));
  }
  void CheckFill(std::string_view name, const Fill& fill, bool may_be_empty) {
    Expect((fill.empty() && may_be_empty) || fill.size() == 1 ||
               static_cast<int>(fill.size()) == channels_,
           fmt::format("{} must be one number or, for these images, {}; got {}", name, channels_,
                       fill.size()));
    for (double value : fill) {
      Expect(value >= 0 && value <= 255, fmt::format("{} must be from 0 to 255", name));
    }
  }
  void CheckCenter(const std::optional<std::array<double, 2>>& center) {
    Expect(!center || (std::isfinite((*center)[0]) && std::isfinite((*center)[1])),
           "center must be finite");
  }
  void CheckBins(int num_bins) { Expect(num_bins >= 2, "num_magnitude_bins must be at least 2"); }
  // Limit of factors and degrees: larger than any useful value, but small enough not to overflow.
  static constexpr double kMost = 1e6;

  void Check(const ColorJitter& a) {
    CheckRange("brightness", a.brightness, 0, kMost);
    CheckRange("contrast", a.contrast, 0, kMost);
    CheckRange("saturation", a.saturation, 0, kMost);
    CheckRange("hue", a.hue, -0.5, 0.5);
  }
  void Check(const RandomGrayscale& a) { CheckProbability(a.p); }
  void Check(const GaussianBlur& a) {
    CheckRange("sigma", a.sigma, 1e-3, kMost);
    const int size[2] = {width_, height_};
    for (int i = 0; i < 2; ++i) {
      Expect(a.kernel_size[i] > 0 && a.kernel_size[i] % 2 == 1,
             "kernel_size must be odd and positive");
      Expect(a.kernel_size[i] / 2 < size[i],
             fmt::format("half a kernel must be smaller than the image, which is {} x {}", width_,
                         height_));
    }
  }
  void Check(const RandomErasing& a) {
    CheckProbability(a.p);
    CheckRange("scale", a.scale, 0, 1);
    CheckRange("ratio", a.ratio, 1 / kMost, kMost);
    if (!a.random_value) CheckFill("value", a.value, false);
  }
  void Check(const RandomHorizontalFlip& a) { CheckProbability(a.p); }
  void Check(const RandomVerticalFlip& a) { CheckProbability(a.p); }
  void Check(const Pad& a) {
    constexpr int kMostPixels = 1 << 20;
    CheckFill("fill", a.fill, false);
    for (int i = 0; i < 4; ++i) {
      Expect(a.padding[i] >= 0 && a.padding[i] <= kMostPixels,
             fmt::format("padding must be from 0 to {}", kMostPixels));
      const int size = i % 2 == 0 ? width_ : height_;
      Expect(a.padding_mode != PaddingMode::kReflect || a.padding[i] < size,
             fmt::format("padding must be less than the image's size, {} x {}", width_, height_));
      Expect(a.padding_mode != PaddingMode::kSymmetric || a.padding[i] <= size,
             fmt::format("padding must be at most the image's size, {} x {}", width_, height_));
    }
    Expect(!inside_apply_ || std::count(a.padding.begin(), a.padding.end(), 0) == 4,
           "must not be within RandomApply, because all images must have one size");
    if (!complaint_.empty()) return;
    width_ += a.padding[0] + a.padding[2];
    height_ += a.padding[1] + a.padding[3];
  }
  void Check(const RandomRotation& a) {
    CheckRange("degrees", a.degrees, -kMost, kMost);
    CheckFill("fill", a.fill, true);
    CheckCenter(a.center);
  }
  void Check(const RandomAffine& a) {
    CheckRange("degrees", a.degrees, -kMost, kMost);
    for (double t : a.translate) Expect(t >= 0 && t <= 1, "translate must be from 0 to 1");
    CheckRange("scale", a.scale, 1 / kMost, kMost);
    for (const Range& shear : a.shear) CheckRange("shear", shear, -kMost, kMost);
    CheckFill("fill", a.fill, true);
    CheckCenter(a.center);
  }
  void Check(const RandomPerspective& a) {
    CheckProbability(a.p);
    Expect(a.distortion_scale >= 0 && a.distortion_scale <= 1,
           "distortion_scale must be from 0 to 1");
    CheckFill("fill", a.fill, true);
  }
  void Check(const RandomInvert& a) { CheckProbability(a.p); }
  void Check(const RandomPosterize& a) {
    CheckProbability(a.p);
    Expect(a.bits >= 0 && a.bits <= 8, "bits must be from 0 to 8");
  }
  void Check(const RandomSolarize& a) {
    CheckProbability(a.p);
    Expect(a.threshold >= 0 && a.threshold <= 255, "threshold must be from 0 to 255");
  }
  void Check(const RandomAutocontrast& a) { CheckProbability(a.p); }
  void Check(const RandomEqualize& a) { CheckProbability(a.p); }
  void Check(const RandomAdjustSharpness& a) {
    CheckProbability(a.p);
    Expect(a.sharpness_factor >= 0 && a.sharpness_factor <= kMost,
           fmt::format("sharpness_factor must be from 0 to {}", kMost));
  }
  void Check(const RandAugment& a) {
    Expect(a.num_ops >= 0 && a.num_ops <= 1000, "num_ops must be from 0 to 1000");
    CheckBins(a.num_magnitude_bins);
    Expect(a.magnitude >= 0 && a.magnitude < a.num_magnitude_bins,
           "magnitude must be at least 0 and less than num_magnitude_bins");
    CheckFill("fill", a.fill, true);
  }
  void Check(const TrivialAugmentWide& a) {
    CheckBins(a.num_magnitude_bins);
    CheckFill("fill", a.fill, true);
  }
  void Check(const RandomApply& a) {
    CheckProbability(a.p);
    const bool outside = std::exchange(inside_apply_, true);
    Check(a.transforms);
    inside_apply_ = outside;
  }

  int height_;
  int width_;
  const int channels_;
  bool inside_apply_ = false;
  bool complained_ = false;  // whether complaint_ already names its step
  std::string complaint_;
};

}  // namespace

std::string Describe(const std::vector<Augmentation>& steps) {
  std::string text;
  for (const Augmentation& step : steps) text += (text.empty() ? "" : ", ") + Describe(step);
  return text;
}

absl::StatusOr<OutputSize> Check(const std::vector<Augmentation>& steps, int height, int width,
                                 int channels) {
  Checker checker(height, width, channels);
  checker.Check(steps);
  if (!checker.complaint().empty()) return absl::InvalidArgumentError(checker.complaint());
  return OutputSize{checker.height(), checker.width()};
}

}  // namespace augment
}  // namespace shardfeed
