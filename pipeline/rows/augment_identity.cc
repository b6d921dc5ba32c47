#include "pipeline/rows/augment_identity.h"

#include <array>
#include <optional>
#include <variant>

namespace shardfeed {
namespace augment {
namespace {

template <typename T>
const T& Value(const T& value) {
  return value;
}
std::vector<double> Value(const Range& range) { return {range.min, range.max}; }
template <typename T, size_t n>
std::vector<T> Value(const std::array<T, n>& values) {
  return {values.begin(), values.end()};
}
std::vector<double> Value(const std::array<Range, 2>& ranges) {
  return {ranges[0].min, ranges[0].max, ranges[1].min, ranges[1].max};
}
std::vector<double> Value(const std::optional<std::array<double, 2>>& center) {
  return center ? Value(*center) : std::vector<double>();
}

Identity Of(const ColorJitter& a) {
  return Identity("ColorJitter")
      .Add("brightness", Value(a.brightness))
      .Add("contrast", Value(a.contrast))
      .Add("saturation", Value(a.saturation))
      .Add("hue", Value(a.hue));
}
Identity Of(const RandomGrayscale& a) { return Identity("RandomGrayscale").Add("p", Value(a.p)); }
Identity Of(const GaussianBlur& a) {
  return Identity("GaussianBlur")
      .Add("kernel_size", Value(a.kernel_size))
      .Add("sigma", Value(a.sigma));
}
Identity Of(const RandomErasing& a) {
  return Identity("RandomErasing")
      .Add("p", Value(a.p))
      .Add("scale", Value(a.scale))
      .Add("ratio", Value(a.ratio))
      .Add("value", Value(a.value))
      .Add("random_value", Value(a.random_value));
}
Identity Of(const RandomHorizontalFlip& a) {
  return Identity("RandomHorizontalFlip").Add("p", Value(a.p));
}
Identity Of(const RandomVerticalFlip& a) {
  return Identity("RandomVerticalFlip").Add("p", Value(a.p));
}
Identity Of(const Pad& a) {
  return Identity("Pad")
      .Add("padding", Value(a.padding))
      .Add("fill", Value(a.fill))
      .Add("padding_mode", Value(a.padding_mode));
}
Identity Of(const RandomRotation& a) {
  return Identity("RandomRotation")
      .Add("degrees", Value(a.degrees))
      .Add("interpolation", Value(a.interpolation))
      .Add("center", Value(a.center))
      .Add("fill", Value(a.fill));
}
Identity Of(const RandomAffine& a) {
  return Identity("RandomAffine")
      .Add("degrees", Value(a.degrees))
      .Add("translate", Value(a.translate))
      .Add("scale", Value(a.scale))
      .Add("shear", Value(a.shear))
      .Add("interpolation", Value(a.interpolation))
      .Add("fill", Value(a.fill))
      .Add("center", Value(a.center));
}
Identity Of(const RandomPerspective& a) {
  return Identity("RandomPerspective")
      .Add("distortion_scale", Value(a.distortion_scale))
      .Add("p", Value(a.p))
      .Add("interpolation", Value(a.interpolation))
      .Add("fill", Value(a.fill));
}
Identity Of(const RandomInvert& a) { return Identity("RandomInvert").Add("p", Value(a.p)); }
Identity Of(const RandomPosterize& a) {
  return Identity("RandomPosterize").Add("bits", Value(a.bits)).Add("p", Value(a.p));
}
Identity Of(const RandomSolarize& a) {
  return Identity("RandomSolarize").Add("threshold", Value(a.threshold)).Add("p", Value(a.p));
}
Identity Of(const RandomAutocontrast& a) {
  return Identity("RandomAutocontrast").Add("p", Value(a.p));
}
Identity Of(const RandomEqualize& a) { return Identity("RandomEqualize").Add("p", Value(a.p)); }
Identity Of(const RandomAdjustSharpness& a) {
  return Identity("RandomAdjustSharpness")
      .Add("sharpness_factor", Value(a.sharpness_factor))
      .Add("p", Value(a.p));
}
Identity Of(const RandAugment& a) {
  return Identity("RandAugment")
      .Add("num_ops", Value(a.num_ops))
      .Add("magnitude", Value(a.magnitude))
      .Add("num_magnitude_bins", Value(a.num_magnitude_bins))
      .Add("interpolation", Value(a.interpolation))
      .Add("fill", Value(a.fill));
}
Identity Of(const TrivialAugmentWide& a) {
  return Identity("TrivialAugmentWide")
      .Add("num_magnitude_bins", Value(a.num_magnitude_bins))
      .Add("interpolation", Value(a.interpolation))
      .Add("fill", Value(a.fill));
}
Identity Of(const RandomApply& a) {
  return Identity("RandomApply").Add("transforms", IdentitiesOf(a.transforms)).Add("p", a.p);
}

}  // namespace
}  // namespace augment

std::vector<Identity> IdentitiesOf(const std::vector<Augmentation>& steps) {
  std::vector<Identity> identities;
  identities.reserve(steps.size());
  for (const Augmentation& step : steps) {
    identities.push_back(std::visit([](const auto& a) { return augment::Of(a); }, step));
  }
  return identities;
}

}  // namespace shardfeed
