// Random numbers by their place in a sequence, so that none depends on how many were drawn before.

#ifndef SHARDFEED_BASE_NUMBERED_RANDOM_H_
#define SHARDFEED_BASE_NUMBERED_RANDOM_H_

#include <cstdint>

namespace shardfeed {

// Returns number `number` of the uniformly distributed sequence that `seed` selects: two rounds of
// SplitMix64's output function (Steele, Lea, Flood 2014) over a counter.
inline uint64_t NumberedRandom(uint64_t seed, uint64_t number) {
  uint64_t z = seed * 0xd1342543de82ef95u + (number + 1) * 0x9e3779b97f4a7c15u;
  for (int round = 0; round < 2; ++round) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_NUMBERED_RANDOM_H_
