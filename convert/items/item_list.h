// A list of item numbers, for items that Scan left out.

#ifndef SHARDFEED_CONVERT_ITEMS_ITEM_LIST_H_
#define SHARDFEED_CONVERT_ITEMS_ITEM_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardfeed {

// Takes 8 bytes per item.
class ItemList {
 public:
  // Numbers must be added in increasing order.
  void Add(uint64_t number) { numbers_.push_back(number); }
  size_t size() const { return numbers_.size(); }

  // One pass over all items of the source, in increasing order.
  class Pass {
   public:
    explicit Pass(const ItemList& list) : list_(list) {}
    // Whether the next item (item 0 at the first call) is in the list.
    bool Next() {
      const bool found = next_ < list_.numbers_.size() && list_.numbers_[next_] == number_;
      next_ += found ? 1 : 0;
      ++number_;
      return found;
    }

   private:
    const ItemList& list_;
    size_t next_ = 0;
    uint64_t number_ = 0;
  };

 private:
  std::vector<uint64_t> numbers_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_ITEM_LIST_H_
