#include "pipeline/rows/joint_columns.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "shardfeed/schema.h"

namespace shardfeed {
namespace {

template <typename T>
bool Append(double value, size_t times, std::string* bytes) {
  if constexpr (std::numeric_limits<T>::is_integer) {
    // The limits of int64 are not exact as doubles, but 2^63 is.
    if (!(value == std::floor(value)) ||
        value < static_cast<double>(std::numeric_limits<T>::min()) ||
        value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) {
      return false;
    }
  }
  const T number = static_cast<T>(value);
  for (size_t i = 0; i < times; ++i) {
    bytes->append(reinterpret_cast<const char*>(&number), sizeof(T));
  }
  return true;
}

// Returns false if `dtype` cannot hold `value`.
bool Append(DType dtype, double value, size_t times, std::string* bytes) {
  switch (dtype) {
    case DType::kUInt8:
      return Append<uint8_t>(value, times, bytes);
    case DType::kInt8:
      return Append<int8_t>(value, times, bytes);
    case DType::kUInt16:
      return Append<uint16_t>(value, times, bytes);
    case DType::kInt16:
      return Append<int16_t>(value, times, bytes);
    case DType::kInt32:
      return Append<int32_t>(value, times, bytes);
    case DType::kInt64:
      return Append<int64_t>(value, times, bytes);
    case DType::kFloat32:
      return Append<float>(value, times, bytes);
    case DType::kFloat64:
      return Append<double>(value, times, bytes);
    default:
      return false;
  }
}

}  // namespace

absl::Status CheckJointNames(std::string_view step, const std::string& image,
                             const JointColumns& joint) {
  std::set<std::string> names = {image};
  const std::set<std::string> points(joint.points.begin(), joint.points.end());
  for (const auto* list : {&joint.masks, &joint.views, &joint.boxes, &joint.points}) {
    for (const std::string& name : *list) {
      if (names.insert(name).second) continue;
      return absl::InvalidArgumentError(fmt::format("{}: column '{}' appears twice", step, name));
    }
  }
  std::set<std::string> box_columns;
  for (const std::string& name : joint.box_columns) {
    const bool elsewhere = names.contains(name) && !points.contains(name);
    if (!elsewhere && box_columns.insert(name).second) continue;
    return absl::InvalidArgumentError(fmt::format("{}: column '{}' appears twice", step, name));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MaskPixel(std::string_view step, DType dtype, size_t num_values,
                                      double fill) {
  std::string pixel;
  if (Append(dtype, fill, num_values, &pixel)) return pixel;
  if (Append(dtype, 0, 1, &pixel)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: mask_fill must be a value of {}, got {}", step, DTypeName(dtype), fill));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: masks are integers, float32 or float64, not {}", step, DTypeName(dtype)));
}

std::string JointText(const JointColumns& joint) {
  constexpr std::string_view kFormats[] = {"xyxy", "yxyx", "xywh", "cxcywh"};
  const JointColumns defaults;
  std::string text;
  const auto list = [&](std::string_view name, const std::vector<std::string>& names) {
    if (!names.empty()) text += fmt::format(", {}=[{}]", name, fmt::join(names, ", "));
  };
  const auto add = [&](std::string_view name, const auto& value, const auto& otherwise) {
    if (value != otherwise) text += fmt::format(", {}={}", name, value);
  };
  list("masks", joint.masks);
  add("mask_fill", joint.mask_fill, defaults.mask_fill);
  list("views", joint.views);
  list("boxes", joint.boxes);
  add("box_format", kFormats[static_cast<int>(joint.box_format)], kFormats[0]);
  add("min_area", joint.min_area, defaults.min_area);
  add("min_visible", joint.min_visible, defaults.min_visible);
  list("box_columns", joint.box_columns);
  list("points", joint.points);
  add("normalized", joint.normalized, false);
  return text;
}

void AddJointColumns(const JointColumns& joint, Identity* identity) {
  identity->AddIf(!joint.masks.empty(), "masks", joint.masks)
      .AddIf(!joint.masks.empty(), "mask_fill", joint.mask_fill)
      .AddIf(!joint.views.empty(), "views", joint.views);
  if (!joint.boxes.empty()) {
    identity->Add("boxes", joint.boxes)
        .Add("box_format", joint.box_format)
        .Add("min_area", joint.min_area)
        .Add("min_visible", joint.min_visible)
        .Add("box_columns", joint.box_columns);
  }
  identity->AddIf(!joint.points.empty(), "points", joint.points)
      .AddIf(!joint.boxes.empty() || !joint.points.empty(), "normalized", joint.normalized);
}

}  // namespace shardfeed
