// Random numbers that depend on what they are for, not on when they are drawn.

#ifndef SHARDFEED_PIPELINE_DATA_RANDOM_H_
#define SHARDFEED_PIPELINE_DATA_RANDOM_H_

#include <cstdint>

namespace shardfeed {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) on a
// counter that starts at a hash of its key: the same key gives the same numbers on every machine
// and for any number of threads. A UniformRandomBitGenerator, so the standard's distributions take
// it; those differ between standard libraries, Uniform does not.
class Random {
 public:
  using result_type = uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT64_MAX; }

  explicit Random(uint64_t seed, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0)
      : state_(Mix(Mix(Mix(Mix(seed) ^ a) ^ b) ^ c)) {}

  uint64_t operator()() { return Mix(state_ += 0x9e3779b97f4a7c15); }
  // In [0, 1), of 53 bits.
  double Uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  // In [0, n), n at least 1. (Lemire's multiplication; the bias is below n / 2^64.)
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>((*this)()) * n >> 64);
  }

 private:
  static constexpr uint64_t Mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  uint64_t state_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_RANDOM_H_
