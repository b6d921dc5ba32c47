// Division by a number that is known in advance.

#ifndef SHARDFEED_READER_ORDER_DIVIDER_H_
#define SHARDFEED_READER_ORDER_DIVIDER_H_

#include <cstdint>

namespace shardfeed {

// Divides by `d` >= 1 by a multiplication instead of the processor's division, which costs ten
// times as much. The estimate floor(n * floor((2^64 - 1) / d) / 2^64) is at most one too small.
class Divider {
 public:
  explicit Divider(uint64_t d) : divisor_(d), reciprocal_(UINT64_MAX / d) {}

  uint64_t divisor() const { return divisor_; }

  struct Result {
    uint64_t quotient;
    uint64_t remainder;
  };
  Result Divide(uint64_t n) const {
    const auto estimate =
        static_cast<uint64_t>((static_cast<unsigned __int128>(n) * reciprocal_) >> 64);
    const uint64_t rest = n - estimate * divisor_;
    return rest >= divisor_ ? Result{estimate + 1, rest - divisor_} : Result{estimate, rest};
  }

 private:
  uint64_t divisor_;
  uint64_t reciprocal_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_DIVIDER_H_
