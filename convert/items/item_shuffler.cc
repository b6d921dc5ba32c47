#include "convert/items/item_shuffler.h"

#include "base/numbered_random.h"

namespace shardfeed {
absl::Status ItemShuffler::Add(const Item& item) {
  return sorter_.Add(NumberedRandom(seed_, next_number_++), item);
}

}  // namespace shardfeed
