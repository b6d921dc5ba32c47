// What a number becomes in a feature: the one rule for rows, for columns, and for data of other
// libraries.

#ifndef SHARDFEED_PYTHON_CORE_NUMBER_RULE_H_
#define SHARDFEED_PYTHON_CORE_NUMBER_RULE_H_

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "shardfeed/schema.h"

namespace shardfeed::python {

// The rule of a feature that is declared as numbers of `dtype`. Integers and floats whose type
// is learned have that of kInt64 and of kFloat32.
class NumberRule {
 public:
  explicit NumberRule(DType dtype);

  // Whether the feature has floats, even if it is given integers.
  bool has_floats() const { return significant_bits_ > 0; }

  // Whether a number stays the same, except for digits of floats. An integer among floats must be
  // exact: whoever writes 16777217 does not mean 16777216.
  template <std::integral T>
  bool Fits(T value) const {
    if (!has_floats()) {
      return std::cmp_greater_equal(value, least_) && std::cmp_less_equal(value, most_);
    }
    const auto bits = static_cast<uint64_t>(value);
    const uint64_t size = std::cmp_less(value, 0) ? 0 - bits : bits;
    return size == 0 || (size >> std::countr_zero(size) < uint64_t{1} << significant_bits_ &&
                         static_cast<double>(size) <= largest_);
  }
  template <std::floating_point T>
  bool Fits(T value) const {
    return std::abs(value) <= largest_ || !std::isfinite(value);
  }
  // Whether all numbers of a type fit, and lose nothing.
  template <typename T>
  bool FitsAll() const {
    if constexpr (std::integral<T>) {
      return !has_floats() && std::cmp_greater_equal(std::numeric_limits<T>::min(), least_) &&
             std::cmp_less_equal(std::numeric_limits<T>::max(), most_);
    } else {
      // Records have 32-bit floats, whatever is declared.
      return std::same_as<T, float> && (dtype_ == DType::kFloat32 || dtype_ == DType::kFloat64);
    }
  }

  // Whether a float that fits loses so much that users should know.
  bool IsLossy(double value) const {
    if (value == 0) return false;
    const double size = std::abs(value);
    return (size >= kUnsuspicious || size < smallest_ || exact_) && IsLossySlow(value);
  }

  // Why a number does not fit, and the remedy.
  std::string Why(int64_t value) const;
  std::string Why(uint64_t value) const;
  std::string Why(double value) const;

  // The value that a float has when it is read back.
  double Stored(double value) const;

 private:
  static constexpr double kUnsuspicious = 1 << 23;  // floats from here on are whole numbers

  bool IsLossySlow(double value) const;
  std::string WhyInteger(std::string_view value) const;

  DType dtype_;
  int64_t least_ = INT64_MIN;
  int64_t most_ = INT64_MAX;
  int significant_bits_ = 0;
  double largest_ = 0;   // for floats: a greater number would become infinite
  double smallest_ = 0;  // for floats: a smaller number might become 0
  bool exact_ = false;   // whether float64 is declared: then all lost digits are reported
};

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_NUMBER_RULE_H_
