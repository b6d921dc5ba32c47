// Items grouped, so that a thread gets many at a time.

#ifndef SHARDFEED_CONVERT_ITEMS_ITEM_BATCH_H_
#define SHARDFEED_CONVERT_ITEMS_ITEM_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/items/source.h"

namespace shardfeed {

class ItemBatch {
 public:
  // Copies the item.
  void Add(const Item& item) {
    places_.push_back({bytes_.size(), item.bytes.size(), item.file, item.line});
    bytes_.append(item.bytes);
  }

  size_t size() const { return places_.size(); }
  // Size of all items, in bytes.
  size_t num_bytes() const { return bytes_.size(); }
  // The item is valid until the next Add.
  Item operator[](size_t i) const {
    const Place& place = places_[i];
    return {std::string_view(bytes_).substr(place.begin, place.size), place.file, place.line};
  }

 private:
  struct Place {
    size_t begin;
    size_t size;
    uint32_t file;
    uint64_t line;
  };
  std::string bytes_;
  std::vector<Place> places_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_ITEM_BATCH_H_
