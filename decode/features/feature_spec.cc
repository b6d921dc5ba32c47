#include "decode/features/feature_spec.h"

#include "base/utf8.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

// The largest record that Protocol Buffers parse.
constexpr int64_t kMaxRowBytes = INT32_MAX;

FeatureKind KindOf(const FeatureValues& values) {
  if (std::holds_alternative<std::vector<int64_t>>(values)) return FeatureKind::kInt64;
  if (std::holds_alternative<std::vector<float>>(values)) return FeatureKind::kFloat;
  return FeatureKind::kBytes;
}

// Each Defect function says what is wrong with a spec, or returns an empty string.
std::string DTypeDefect(const FeatureSpec& spec) {
  return spec.decode_raw && spec.dtype == DType::kBytes
             ? "decode_raw produces numbers, so its type cannot be bytes"
             : "";
}

std::string ShapeDefect(const FeatureSpec& spec) {
  int64_t bytes = static_cast<int64_t>(DTypeSize(spec.dtype));
  for (int64_t dimension : spec.shape) {
    if (dimension < 1) {
      return fmt::format("a dimension of its shape {} is {}, which must be at least 1{}",
                         ShapeText(spec.shape), dimension,
                         dimension < 0 ? "; for rows of any length ask for it as ragged" : "");
    }
    if (__builtin_mul_overflow(bytes, dimension, &bytes) || bytes > kMaxRowBytes) {
      return fmt::format("a row of shape {} is larger than any record can be (2 GiB)",
                         ShapeText(spec.shape));
    }
  }
  if (spec.layout == Layout::kSparse && !spec.shape.empty()) {
    return fmt::format("sparse values are scalars, so it cannot have the shape {}",
                       ShapeText(spec.shape));
  }
  return "";
}

std::string DefaultDefect(const FeatureSpec& spec) {
  if (!spec.default_value) return "";
  if (spec.layout == Layout::kRagged || spec.layout == Layout::kSparse) {
    return "it has a default, which only fixed and padded features have";
  }
  const FeatureKind kind = KindOf(*spec.default_value);
  if (kind != ListKind(spec)) {
    return fmt::format("its default is of kind {}, expected {}", FeatureKindName(kind),
                       FeatureKindName(ListKind(spec)));
  }
  const size_t size =
      std::visit([](const auto& values) { return values.size(); }, *spec.default_value);
  if (spec.decode_raw) {
    const int64_t expected = static_cast<int64_t>(DTypeSize(spec.dtype)) *
                             (spec.layout == Layout::kFixed ? NumValues(spec) : 1);
    const auto& strings = std::get<std::vector<std::string>>(*spec.default_value);
    if (strings.size() != 1 || static_cast<int64_t>(strings[0].size()) != expected) {
      return fmt::format("its default must be one string of {} bytes", expected);
    }
    return "";
  }
  const int64_t all = spec.layout == Layout::kFixed ? NumValues(spec) : 1;
  if (size != 1 && static_cast<int64_t>(size) != all) {
    return fmt::format("its default has {} values, expected {}", size,
                       all == 1 ? "1" : fmt::format("1 or {}", all));
  }
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&*spec.default_value)) {
    for (int64_t number : *numbers) {
      if (!Fits(spec.dtype, number)) {
        return fmt::format("its default {} does not fit {}", number, DTypeName(spec.dtype));
      }
    }
  }
  return "";
}

std::string ListDefect(const FeatureSpec& spec, bool in_feature_list) {
  if (in_feature_list && spec.layout == Layout::kFixed) {
    return "a feature list has any number of steps: ask for it as ragged, padded or sparse";
  }
  if (!in_feature_list && spec.ragged_steps) return "only feature lists have steps";
  return "";
}

}  // namespace

bool Fits(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kInt32:
      return value == static_cast<int32_t>(value);
    case DType::kUInt8:
      return value == static_cast<uint8_t>(value);
    case DType::kInt8:
      return value == static_cast<int8_t>(value);
    case DType::kUInt16:
      return value == static_cast<uint16_t>(value);
    case DType::kInt16:
      return value == static_cast<int16_t>(value);
    default:
      return true;
  }
}

FeatureKind ListKind(const FeatureSpec& spec) {
  if (spec.decode_raw) return FeatureKind::kBytes;
  switch (spec.dtype) {
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kUInt16:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return FeatureKind::kInt64;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return FeatureKind::kFloat;
    case DType::kBytes:
      return FeatureKind::kBytes;
  }
  return FeatureKind::kNone;
}

int64_t NumValues(const FeatureSpec& spec) {
  int64_t values = 1;
  for (int64_t dimension : spec.shape) values *= dimension;
  return values;
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

absl::Status Validate(const FeatureSpec& spec, bool in_feature_list) {
  std::string defect;
  if (!IsUtf8(spec.name)) defect = "its name is not UTF-8";
  if (defect.empty()) defect = DTypeDefect(spec);
  if (defect.empty()) defect = ListDefect(spec, in_feature_list);
  if (defect.empty()) defect = ShapeDefect(spec);
  if (defect.empty()) defect = DefaultDefect(spec);
  if (defect.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} '{}': {}", in_feature_list ? "feature list" : "feature", spec.name, defect));
}

}  // namespace shardfeed
