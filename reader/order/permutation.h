// Keyed bijections of [0, n): the basis of all shuffled orders.

#ifndef SHARDFEED_READER_ORDER_PERMUTATION_H_
#define SHARDFEED_READER_ORDER_PERMUTATION_H_

#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/rounding.h"
#include "reader/order/divider.h"

namespace shardfeed {

// A hash of one number whose bits all depend on all bits of the number. Source: the finalizer of
// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
inline uint64_t MixBits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A key derived from a key and another number.
inline uint64_t DeriveKey(uint64_t key, uint64_t number) {
  return MixBits(key + 0x9e3779b97f4a7c15 * (number + 1));
}

// A key derived from a key and a text.
inline uint64_t DeriveKey(uint64_t key, std::string_view text) {
  for (char c : text) key = DeriveKey(key, uint64_t{static_cast<unsigned char>(c)});
  return key;
}

// The permutations of [0, n), one for each key. Copying is cheap; all methods take constant time,
// about 20 ns. A generalized Feistel network over a grid of a by b >= n cells (Black and Rogaway,
// "Ciphers with arbitrary finite domains", 2002): results among the fewer than b excess cells are
// permuted again, which is rare.
class Permutation {
 public:
  // `n` < 2^62.
  explicit Permutation(uint64_t n = 1)
      : n_(n),
        low_(n < 2 ? 1 : static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(n))))) {
    const uint64_t b = low_.divisor();
    a_ = n == 0 ? 1 : CeilDivide(n, b);
    // A small grid needs more rounds to mix, as the chi-square tests showed.
    rounds_ = n < 64 ? 10 : n < 4096 ? 4 : 3;
  }

  uint64_t size() const { return n_; }

  // The image of `x` < n under `key`.
  uint64_t Apply(uint64_t key, uint64_t x) const {
    const uint64_t b = low_.divisor();
    do {
      auto [high, low] = low_.Divide(x);
      for (int i = 0; i < rounds_; ++i) {
        high = Plus(high, Round(key, 2 * i, low, a_), a_);
        low = Plus(low, Round(key, 2 * i + 1, high, b), b);
      }
      x = high * b + low;
    } while (x >= n_);
    return x;
  }

  // The preimage of `y` < n: Apply(key, Invert(key, y)) == y.
  uint64_t Invert(uint64_t key, uint64_t y) const {
    const uint64_t b = low_.divisor();
    do {
      auto [high, low] = low_.Divide(y);
      for (int i = rounds_ - 1; i >= 0; --i) {
        low = Minus(low, Round(key, 2 * i + 1, high, b), b);
        high = Minus(high, Round(key, 2 * i, low, a_), a_);
      }
      y = high * b + low;
    } while (y >= n_);
    return y;
  }

 private:
  // Reduces to a number below `bound` < 2^32.
  static uint64_t Round(uint64_t key, int round, uint64_t x, uint64_t bound) {
    // Folds both halves of a product, as wyhash does (Wang Yi, public domain).
    const uint64_t factor = 0xe7037ed1a0b428db * (2 * round + 1);
    const unsigned __int128 product =
        static_cast<unsigned __int128>(x ^ key) * (factor ^ (key >> 7));
    const uint64_t h = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    return static_cast<uint64_t>((static_cast<unsigned __int128>(h) * bound) >> 64);
  }
  static uint64_t Plus(uint64_t x, uint64_t y, uint64_t bound) {
    const uint64_t sum = x + y;
    return sum >= bound ? sum - bound : sum;
  }
  static uint64_t Minus(uint64_t x, uint64_t y, uint64_t bound) {
    return x >= y ? x - y : x + bound - y;
  }

  uint64_t n_;
  Divider low_;  // b
  uint64_t a_;
  int rounds_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_ORDER_PERMUTATION_H_
