// Sorts any number of items by their keys, in bounded memory.

#ifndef SHARDFEED_CONVERT_ITEMS_ITEM_SORTER_H_
#define SHARDFEED_CONVERT_ITEMS_ITEM_SORTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "convert/items/source.h"
#include "io/output_file.h"

namespace shardfeed {

// Keys should be spread evenly. Sorts in memory while the items fit; otherwise distributes them
// over files by the first bits of their keys. Each file is then sorted separately, and distributed
// again if it is still too large. Items whose keys agree in their first 60 bits may come in the
// order in which they were added. Not thread-safe.
class ItemSorter {
 public:
  // Spills into files in `directory`, which must exist; the files are removed in the end.
  explicit ItemSorter(std::string directory, size_t memory_bytes = 64 << 20);
  ~ItemSorter();

  // Copies the item.
  absl::Status Add(uint64_t key, const Item& item);

  // Passes all items to `sink` in the order of their keys, equal keys in the order of adding, once.
  // Stops at the first error of `sink`.
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink);

  bool spilled() const { return !buckets_.empty(); }

 private:
  struct Bucket {
    std::string path;
    std::unique_ptr<OutputFile> file;
    std::string pending;
  };

  // A sorter for one bucket of another sorter, whose keys agree in their first `depth` bits.
  ItemSorter(std::string directory, size_t memory_bytes, int depth);
  // `encoded` is the item's encoding in a bucket's file.
  absl::Status Put(uint64_t key, std::string_view encoded);
  absl::Status Spill();
  absl::Status Flush(Bucket& bucket);
  absl::Status ForEachInMemory(const std::function<absl::Status(const Item&)>& sink);

  const std::string directory_;
  const size_t memory_bytes_;
  const size_t bucket_buffer_;
  const int depth_;  // number of key bits used so far

  struct Entry {
    uint64_t key;
    size_t offset;  // offset in items_
  };
  std::string encoded_;
  std::vector<Entry> entries_;
  std::string items_;
  std::vector<Bucket> buckets_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_ITEM_SORTER_H_
