#include "convert/items/item_shuffler.h"

namespace shardfeed {
namespace {

// SplitMix64's output function (Steele, Lea, Flood 2014) over a seeded counter.
uint64_t KeyOf(uint64_t seed, uint64_t number) {
  uint64_t z = seed * 0xd1342543de82ef95u + (number + 1) * 0x9e3779b97f4a7c15u;
  for (int round = 0; round < 2; ++round) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace

absl::Status ItemShuffler::Add(const Item& item) {
  return sorter_.Add(KeyOf(seed_, next_number_++), item);
}

}  // namespace shardfeed
