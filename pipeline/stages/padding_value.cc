#include "pipeline/stages/padding_value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "decode/features/float16.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

template <typename T>
bool SetInteger(const Padding& padding, PaddingValue* to) {
  T value = 0;
  if (const auto* i = std::get_if<int64_t>(&padding.value)) {
    if (!std::in_range<T>(*i)) return false;
    value = static_cast<T>(*i);
  } else if (const auto* d = std::get_if<double>(&padding.value)) {
    // Values of 2^63 and above would overflow the conversion; NaN fails each comparison.
    if (!(*d >= -0x1p63 && *d < 0x1p63) || std::trunc(*d) != *d) return false;
    if (!std::in_range<T>(static_cast<int64_t>(*d))) return false;
    value = static_cast<T>(*d);
  } else {
    return false;
  }
  std::memcpy(to->bytes, &value, sizeof value);
  return true;
}

// `to_type` and `to_double` convert between a double and the column's type T.
template <typename ToType, typename ToDouble>
bool SetFloat(const Padding& padding, const ToType& to_type, const ToDouble& to_double,
              PaddingValue* to) {
  double wanted = 0;
  if (const auto* i = std::get_if<int64_t>(&padding.value)) {
    wanted = static_cast<double>(*i);
    const double held = to_double(to_type(wanted));
    if (!(held >= -0x1p63 && held < 0x1p63) || static_cast<int64_t>(held) != *i) return false;
  } else if (const auto* d = std::get_if<double>(&padding.value)) {
    wanted = *d;
    if (std::isfinite(wanted) && !std::isfinite(to_double(to_type(wanted)))) return false;
  } else {
    return false;
  }
  const auto value = to_type(wanted);
  std::memcpy(to->bytes, &value, sizeof value);
  return true;
}

// A view in `to` refers to `padding`'s string.
bool SetValue(DType dtype, const Padding& padding, PaddingValue* to) {
  switch (dtype) {
    case DType::kUInt8:
      return SetInteger<uint8_t>(padding, to);
    case DType::kInt8:
      return SetInteger<int8_t>(padding, to);
    case DType::kUInt16:
      return SetInteger<uint16_t>(padding, to);
    case DType::kInt16:
      return SetInteger<int16_t>(padding, to);
    case DType::kInt32:
      return SetInteger<int32_t>(padding, to);
    case DType::kInt64:
      return SetInteger<int64_t>(padding, to);
    case DType::kFloat16:
      return SetFloat(
          padding, [](double v) { return ToFloat16(static_cast<float>(v)); }, FromFloat16, to);
    case DType::kBFloat16:
      return SetFloat(
          padding, [](double v) { return ToBFloat16(static_cast<float>(v)); },
          [](uint16_t v) {
            return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(v) << 16));
          },
          to);
    case DType::kFloat32:
      return SetFloat(
          padding, [](double v) { return static_cast<float>(v); },
          [](float v) { return static_cast<double>(v); }, to);
    case DType::kFloat64:
      return SetFloat(
          padding, [](double v) { return v; }, [](double v) { return v; }, to);
    case DType::kBytes: {
      std::string_view value;
      if (const auto* s = std::get_if<std::string>(&padding.value)) {
        value = *s;
      } else if (const auto* i = std::get_if<int64_t>(&padding.value); i == nullptr || *i != 0) {
        return false;
      }
      std::memcpy(to->bytes, &value, sizeof(std::string_view));
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<PaddingValue> PaddingValueOf(std::string_view step, const ColumnSpec& column,
                                            const Padding& padding, std::string_view role) {
  PaddingValue value;
  if (SetValue(column.dtype, padding, &value)) return value;
  const std::string text =
      std::visit([](const auto& v) { return fmt::format("{}", v); }, padding.value);
  const bool is_string = std::holds_alternative<std::string>(padding.value);
  return absl::InvalidArgumentError(fmt::format(
      "{}: column '{}' of {} cannot hold the {} {}{}", step, column.name, DTypeName(column.dtype),
      role, is_string ? "of bytes " : "", is_string ? fmt::format("'{}'", text) : text));
}

void FillWith(const PaddingValue& value, DType dtype, size_t count, char* to) {
  const auto fill = [&]<typename T>(T v) {
    std::memcpy(&v, value.bytes, sizeof v);
    std::fill_n(reinterpret_cast<T*>(to), count, v);
  };
  switch (DTypeSize(dtype)) {
    case 1:
      return fill(uint8_t{});
    case 2:
      return fill(uint16_t{});
    case 4:
      return fill(uint32_t{});
    case 8:
      return fill(uint64_t{});
    default:
      return fill(std::string_view());
  }
}

}  // namespace shardfeed
