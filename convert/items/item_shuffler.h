// A uniform shuffle of any number of items in bounded memory.

#ifndef SHARDFEED_CONVERT_ITEMS_ITEM_SHUFFLER_H_
#define SHARDFEED_CONVERT_ITEMS_ITEM_SHUFFLER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "convert/items/item_sorter.h"
#include "convert/items/source.h"

namespace shardfeed {

// Gives item i the random key f(seed, i) and sorts by key. The order depends only on the seed and
// the number of items. Not thread-safe.
class ItemShuffler {
 public:
  // For `directory` and `memory_bytes`, see ItemSorter.
  ItemShuffler(uint64_t seed, std::string directory, size_t memory_bytes = 64 << 20)
      : seed_(seed), sorter_(std::move(directory), memory_bytes) {}

  // Copies the item.
  absl::Status Add(const Item& item);

  // Passes all items to `sink` in shuffled order, once. Stops at the first error of `sink`.
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) {
    return sorter_.ForEach(sink);
  }

  bool spilled() const { return sorter_.spilled(); }

 private:
  const uint64_t seed_;
  uint64_t next_number_ = 0;
  ItemSorter sorter_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_ITEM_SHUFFLER_H_
