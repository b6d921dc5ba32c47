// Counts how often each of a few keys was added.

#ifndef SHARDFEED_SHARD_STATISTICS_COUNT_TABLE_H_
#define SHARDFEED_SHARD_STATISTICS_COUNT_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardfeed {

// Keys and how often each was added, in the order of the keys.
using KeyCounts = std::vector<std::pair<uint64_t, uint64_t>>;

// A hash table with open addressing and linear probing. It is not one of Abseil's, which cannot
// even be destroyed after running out of memory, nor one of the standard library's, whose divisions
// and nodes make counting three times as expensive.
class CountTable {
 public:
  // Adds `count`, at least 1, to that of the key. Returns whether the key is new.
  bool Add(uint64_t key, uint64_t count = 1) {
    if (2 * size_ >= slots_.size()) Grow();
    Slot& slot = slots_[PlaceOf(key, slots_)];
    const bool added = slot.count == 0;
    slot.key = key;
    slot.count += count;
    size_ += added;
    return added;
  }
  // Adds one to the count of a key if the table has it. Returns whether it does.
  bool AddKnown(uint64_t key) {
    if (size_ == 0) return false;
    Slot& slot = slots_[PlaceOf(key, slots_)];
    if (slot.count == 0) return false;
    ++slot.count;
    return true;
  }
  bool Contains(uint64_t key) const { return size_ > 0 && slots_[PlaceOf(key, slots_)].count > 0; }
  size_t size() const { return size_; }
  KeyCounts Sorted() const {
    KeyCounts all;
    all.reserve(size_);
    for (const Slot& slot : slots_) {
      if (slot.count > 0) all.emplace_back(slot.key, slot.count);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint64_t count = 0;  // 0: the slot is free
  };

  static constexpr size_t kFewestSlots = 16;

  // Returns where the key is, or where it belongs. The number of slots is a power of two.
  static size_t PlaceOf(uint64_t key, const std::vector<Slot>& slots) {
    // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
    const size_t mask = slots.size() - 1;
    const uint64_t hash = (key ^ key >> 32) * 0x9e3779b97f4a7c15;
    for (size_t at = hash >> 32 & mask;; at = (at + 1) & mask) {
      if (slots[at].key == key || slots[at].count == 0) return at;
    }
  }
  void Grow() {
    std::vector<Slot> larger(std::max(kFewestSlots, 2 * slots_.size()));
    for (const Slot& slot : slots_) {
      if (slot.count > 0) larger[PlaceOf(slot.key, larger)] = slot;
    }
    slots_ = std::move(larger);
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_STATISTICS_COUNT_TABLE_H_
