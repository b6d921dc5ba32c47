#include "python/core/images.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "nanobind/stl/array.h"
#include "nanobind/stl/optional.h"
#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/core/batches.h"
#include "python/core/fields.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// Fields of options for images.
class ImageFields : public Fields {
 public:
  using Fields::Fields;
  using Fields::Read;

  void Read(const char* name, augment::Range* field) const {
    std::pair<double, double> range = {field->min, field->max};
    Read(name, &range);
    *field = {range.first, range.second};
  }
  void Read(const char* name, augment::Sampling* field) const {
    Choose(name,
           {{"nearest", augment::Sampling::kNearest}, {"bilinear", augment::Sampling::kBilinear}},
           field);
  }
  // Reads a size in pixels. An invalid size becomes 0, which no image can have.
  void ReadSize(const char* name, uint32_t* field) const {
    int64_t size = *field;
    Read(name, &size);
    *field = size < 0 || size > UINT32_MAX ? 0 : static_cast<uint32_t>(size);
  }
  template <typename A>
  void ReadProbability(A* augmentation) const {
    Read("p", &augmentation->p);
  }
};

template <typename A>
Augmentation OnlyProbability(const ImageFields& f) {
  A a;
  f.ReadProbability(&a);
  return a;
}

Augmentation AugmentationFromPython(std::string_view name, const ImageFields& f) {
  using namespace augment;  // NOLINT(build/namespaces)
  if (name == "RandomGrayscale") return OnlyProbability<RandomGrayscale>(f);
  if (name == "RandomHorizontalFlip") return OnlyProbability<RandomHorizontalFlip>(f);
  if (name == "RandomVerticalFlip") return OnlyProbability<RandomVerticalFlip>(f);
  if (name == "RandomInvert") return OnlyProbability<RandomInvert>(f);
  if (name == "RandomAutocontrast") return OnlyProbability<RandomAutocontrast>(f);
  if (name == "RandomEqualize") return OnlyProbability<RandomEqualize>(f);
  if (name == "ColorJitter") {
    ColorJitter a;
    f.Read("brightness", &a.brightness);
    f.Read("contrast", &a.contrast);
    f.Read("saturation", &a.saturation);
    f.Read("hue", &a.hue);
    return a;
  }
  if (name == "GaussianBlur") {
    GaussianBlur a;
    f.Read("kernel_size", &a.kernel_size);
    f.Read("sigma", &a.sigma);
    return a;
  }
  if (name == "RandomErasing") {
    RandomErasing a;
    f.ReadProbability(&a);
    f.Read("scale", &a.scale);
    f.Read("ratio", &a.ratio);
    f.Read("value", &a.value);
    f.Read("random_value", &a.random_value);
    return a;
  }
  if (name == "Pad") {
    Pad a;
    f.Read("padding", &a.padding);
    f.Read("fill", &a.fill);
    f.Choose("padding_mode",
             {{"constant", PaddingMode::kConstant},
              {"edge", PaddingMode::kEdge},
              {"reflect", PaddingMode::kReflect},
              {"symmetric", PaddingMode::kSymmetric}},
             &a.padding_mode);
    return a;
  }
  if (name == "RandomRotation") {
    RandomRotation a;
    f.Read("degrees", &a.degrees);
    f.Read("interpolation", &a.interpolation);
    f.Read("center", &a.center);
    f.Read("fill", &a.fill);
    return a;
  }
  if (name == "RandomAffine") {
    RandomAffine a;
    f.Read("degrees", &a.degrees);
    f.Read("translate", &a.translate);
    f.Read("scale", &a.scale);
    f.Read("shear_x", &a.shear[0]);
    f.Read("shear_y", &a.shear[1]);
    f.Read("interpolation", &a.interpolation);
    f.Read("fill", &a.fill);
    f.Read("center", &a.center);
    return a;
  }
  if (name == "RandomPerspective") {
    RandomPerspective a;
    f.ReadProbability(&a);
    f.Read("distortion_scale", &a.distortion_scale);
    f.Read("interpolation", &a.interpolation);
    f.Read("fill", &a.fill);
    return a;
  }
  if (name == "RandomPosterize") {
    RandomPosterize a;
    f.ReadProbability(&a);
    f.Read("bits", &a.bits);
    return a;
  }
  if (name == "RandomSolarize") {
    RandomSolarize a;
    f.ReadProbability(&a);
    f.Read("threshold", &a.threshold);
    return a;
  }
  if (name == "RandomAdjustSharpness") {
    RandomAdjustSharpness a;
    f.ReadProbability(&a);
    f.Read("sharpness_factor", &a.sharpness_factor);
    return a;
  }
  if (name == "RandAugment") {
    RandAugment a;
    f.Read("num_ops", &a.num_ops);
    f.Read("magnitude", &a.magnitude);
    f.Read("num_magnitude_bins", &a.num_magnitude_bins);
    f.Read("interpolation", &a.interpolation);
    f.Read("fill", &a.fill);
    return a;
  }
  if (name == "TrivialAugmentWide") {
    TrivialAugmentWide a;
    f.Read("num_magnitude_bins", &a.num_magnitude_bins);
    f.Read("interpolation", &a.interpolation);
    f.Read("fill", &a.fill);
    return a;
  }
  if (name == "RandomApply") {
    RandomApply a;
    f.ReadProbability(&a);
    nb::list transforms;
    f.Read("transforms", &transforms);
    a.transforms = AugmentationsFromPython(nb::borrow<nb::sequence>(transforms));
    return a;
  }
  throw nb::value_error(fmt::format("augmentation '{}' does not exist", name).c_str());
}

}  // namespace

DecodeImageOptions DecodeImageFromPython(nb::dict fields) {
  const ImageFields f(std::move(fields));
  DecodeImageOptions options;
  ImageOptions& image = options.image;
  f.ReadSize("height", &image.height);
  f.ReadSize("width", &image.width);
  f.Read("channels", &image.channels);
  f.Choose("interpolation",
           {{"nearest", Interpolation::kNearest},
            {"bilinear", Interpolation::kBilinear},
            {"bicubic", Interpolation::kBicubic},
            {"area", Interpolation::kArea}},
           &image.interpolation);
  f.Read("antialias", &image.antialias);
  f.Choose("layout", {{"NHWC", ImageLayout::kNHWC}, {"NCHW", ImageLayout::kNCHW}}, &image.layout);
  std::string dtype(DTypeName(image.dtype));
  f.Read("dtype", &dtype);
  image.dtype = DTypeFromName(dtype);
  f.Read("mean", &image.mean);
  f.Read("std", &image.std);
  f.Read("raw", &image.raw);
  f.Read("orient", &image.orient);
  f.Read("dct_scaling", &image.dct_scaling);
  f.Read("max_pixels", &image.jpeg.max_pixels);
  f.Read("max_scans", &image.jpeg.max_scans);
  f.Choose(
      "crop",
      {{"none", CropKind::kNone}, {"center", CropKind::kCenter}, {"random", CropKind::kRandom}},
      &options.crop);
  f.Read("center_fraction", &options.center_fraction);
  f.Read("resize_shorter", &options.resize_shorter);
  f.Read("scale", options.scale);
  f.Read("ratio", options.ratio);
  f.Read("flip", &options.flip);
  f.Choose("on_damage",
           {{"fail", OnDamage::kFail},
            {"replace", OnDamage::kReplace},
            {"zero", OnDamage::kZero},
            {"accept", OnDamage::kAccept}},
           &options.on_damage);
  f.Read("seed", &options.seed);
  f.Read("output", &options.output);
  nb::dict joint;
  f.Read("joint", &joint);
  options.joint = JointColumnsFromPython(std::move(joint));
  return options;
}

JointColumns JointColumnsFromPython(nb::dict fields) {
  const ImageFields f(std::move(fields));
  JointColumns joint;
  f.Read("masks", &joint.masks);
  f.Read("mask_fill", &joint.mask_fill);
  f.Read("views", &joint.views);
  f.Read("boxes", &joint.boxes);
  f.Choose("box_format",
           {{"xyxy", BoxFormat::kXyxy},
            {"yxyx", BoxFormat::kYxyx},
            {"xywh", BoxFormat::kXywh},
            {"cxcywh", BoxFormat::kCxcywh}},
           &joint.box_format);
  f.Read("min_area", &joint.min_area);
  f.Read("min_visible", &joint.min_visible);
  f.Read("box_columns", &joint.box_columns);
  f.Read("points", &joint.points);
  f.Read("normalized", &joint.normalized);
  return joint;
}

std::vector<Augmentation> AugmentationsFromPython(nb::sequence steps) {
  std::vector<Augmentation> all;
  for (nb::handle step : steps) {
    if (!nb::isinstance<nb::tuple>(step) || nb::len(step) != 2) {
      throw nb::type_error("steps must be augmentations of sf.augment");
    }
    const nb::tuple t = nb::borrow<nb::tuple>(step);
    all.push_back(AugmentationFromPython(nb::cast<std::string>(t[0]),
                                         ImageFields(nb::borrow<nb::dict>(t[1]))));
  }
  return all;
}

}  // namespace shardfeed::python
