// Integer division and rounding towards the larger or smaller multiple.

#ifndef SHARDFEED_BASE_ROUNDING_H_
#define SHARDFEED_BASE_ROUNDING_H_

#include <type_traits>

namespace shardfeed {

// For unsigned integers, `by` above 0. The sum `n + by - 1` must not overflow.

template <typename T>
constexpr T CeilDivide(T n, std::type_identity_t<T> by) {
  return (n + by - 1) / by;
}

template <typename T>
constexpr T RoundUp(T n, std::type_identity_t<T> to) {
  return CeilDivide(n, to) * to;
}

template <typename T>
constexpr T RoundDown(T n, std::type_identity_t<T> to) {
  return n / to * to;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_ROUNDING_H_
