#include "python/core/number_rule.h"

#include "decode/features/float16.h"
#include "decode/features/float_digits.h"
#include "fmt/format.h"

namespace shardfeed::python {

NumberRule::NumberRule(DType dtype) : dtype_(dtype) {
  const auto integers = [this]<typename T>(T) {
    least_ = std::numeric_limits<T>::min();
    most_ = std::numeric_limits<T>::max();
  };
  const auto floats = [this](int bits, double largest, double smallest) {
    significant_bits_ = bits;
    largest_ = largest;
    smallest_ = smallest;
  };
  // The next double rounds to infinity.
  constexpr double kLargestFloat = 0x1.fffffefffffffp127;
  switch (dtype) {
    case DType::kUInt8:
      integers(uint8_t{});
      break;
    case DType::kInt8:
      integers(int8_t{});
      break;
    case DType::kUInt16:
      integers(uint16_t{});
      break;
    case DType::kInt16:
      integers(int16_t{});
      break;
    case DType::kInt32:
      integers(int32_t{});
      break;
    case DType::kFloat16:
      floats(11, 65504, 0x1p-24);
      break;
    case DType::kBFloat16:
      floats(8, 0x1.fep127, 0x1p-133);
      break;
    case DType::kFloat64:
      exact_ = true;
      floats(24, kLargestFloat, 0x1p-149);
      break;
    case DType::kFloat32:
      floats(24, kLargestFloat, 0x1p-149);
      break;
    default:
      break;
  }
}

double NumberRule::Stored(double value) const {
  const auto stored = static_cast<float>(value);
  // A number that does not become 0 may still lose digits, but the type was chosen.
  if (dtype_ == DType::kFloat16 && (ToFloat16(stored) & 0x7fff) == 0) return 0;
  if (dtype_ == DType::kBFloat16 && (ToBFloat16(stored) & 0x7fff) == 0) return 0;
  return stored;
}

bool NumberRule::IsLossySlow(double value) const {
  if (!std::isfinite(value)) return false;
  if (Stored(value) == 0) return true;
  return exact_ ? !KeepsDigitsAsFloat(value) : IsLossyAsFloat(value);
}

std::string NumberRule::WhyInteger(std::string_view value) const {
  if (has_floats()) {
    // Records have 32-bit floats, whatever is declared.
    const std::string_view type = dtype_ == DType::kFloat64 ? "float32" : DTypeName(dtype_);
    return fmt::format("{} cannot hold the integer {}; give a float if it may be rounded", type,
                       value);
  }
  if (most_ == INT64_MAX) {
    return fmt::format("{} is out of the range of int64; write it as text, str(x), or as a float",
                       value);
  }
  return fmt::format("{} is out of the range of {} ({} to {}); declare a wider type", value,
                     DTypeName(dtype_), least_, most_);
}

std::string NumberRule::Why(int64_t value) const { return WhyInteger(fmt::format("{}", value)); }

std::string NumberRule::Why(uint64_t value) const { return WhyInteger(fmt::format("{}", value)); }

std::string NumberRule::Why(double value) const {
  if (dtype_ == DType::kFloat16) {
    return fmt::format("{} is out of the range of float16 (up to 65504); declare float32", value);
  }
  return fmt::format("{} is out of the range of {}; write it as text, repr(x), or clip it", value,
                     dtype_ == DType::kBFloat16 ? "bfloat16" : "float32");
}

}  // namespace shardfeed::python
