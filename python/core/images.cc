#include "python/core/images.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "nanobind/stl/array.h"
#include "nanobind/stl/optional.h"
#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "pipeline/rows/augment_fields.h"
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
  void Read(const char* name, std::array<augment::Range, 2>* field) const {
    std::array<std::array<double, 2>, 2> ranges = {};
    for (size_t i = 0; i < 2; ++i) ranges[i] = {(*field)[i].min, (*field)[i].max};
    Read(name, &ranges);
    for (size_t i = 0; i < 2; ++i) (*field)[i] = {ranges[i][0], ranges[i][1]};
  }
  void Read(const char* name, augment::PaddingMode* field) const {
    Choose(name,
           {{"constant", augment::PaddingMode::kConstant},
            {"edge", augment::PaddingMode::kEdge},
            {"reflect", augment::PaddingMode::kReflect},
            {"symmetric", augment::PaddingMode::kSymmetric}},
           field);
  }
  void Read(const char* name, std::vector<Augmentation>* field) const {
    nb::list steps;
    Read(name, &steps);
    *field = AugmentationsFromPython(nb::borrow<nb::sequence>(steps));
  }
};

// The augmentation `name`, which is the alternative `i` of the variant or a later one.
template <size_t i = 0>
Augmentation AugmentationFromPython(std::string_view name, const ImageFields& f) {
  if constexpr (i == std::variant_size_v<Augmentation::variant>) {
    throw nb::value_error(fmt::format("augmentation '{}' does not exist", name).c_str());
  } else {
    using A = std::variant_alternative_t<i, Augmentation::variant>;
    if (name != augment::FieldsOf<A>::kName) return AugmentationFromPython<i + 1>(name, f);
    A augmentation;
    std::vector<std::string_view> fields;
    augment::VisitFields(augmentation, [&](const char* field, auto& value) {
      f.Read(field, &value);
      fields.emplace_back(field);
    });
    f.CheckNames(name, fields);
    return augmentation;
  }
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
