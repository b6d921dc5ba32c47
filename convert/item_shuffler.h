// A uniform shuffle of any number of items in bounded memory.

#ifndef SHARDFEED_CONVERT_ITEM_SHUFFLER_H_
#define SHARDFEED_CONVERT_ITEM_SHUFFLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "convert/source.h"
#include "io/output_file.h"

namespace shardfeed {

// Gives item i the random key f(seed, i) and sorts by the keys: in memory while the items fit,
// otherwise spread over files by the first bits of their keys, each of which is then sorted alone
// (and spread again, if it is still too large). The order depends on the seed and the number of
// items alone. Not thread safe.
class ItemShuffler {
 public:
  // Spills into files in `directory`, which must exist; they are removed again.
  ItemShuffler(uint64_t seed, std::string directory, size_t memory_bytes = 64 << 20);
  ~ItemShuffler();

  // Copies the item.
  absl::Status Add(const Item& item);

  // Hands out all items in shuffled order, once. Stops at the first error of `sink`.
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink);

  bool spilled() const { return !buckets_.empty(); }

 private:
  struct Bucket {
    std::string path;
    std::unique_ptr<OutputFile> file;
    std::string pending;
  };

  // For one bucket of another shuffler: the bits before `depth` are the same in all keys.
  ItemShuffler(std::string directory, size_t memory_bytes, int depth);
  // `encoded`: as it stands in a bucket's file.
  absl::Status Put(uint64_t key, std::string_view encoded);
  absl::Status Spill();
  absl::Status Flush(Bucket& bucket);
  absl::Status ForEachInMemory(const std::function<absl::Status(const Item&)>& sink);

  const uint64_t seed_ = 0;
  const std::string directory_;
  const size_t memory_bytes_;
  const int depth_ = 0;  // how many bits of the keys were used up
  uint64_t next_number_ = 0;

  struct Entry {
    uint64_t key;
    size_t offset;  // in items_
  };
  std::string encoded_;
  std::vector<Entry> entries_;
  std::string items_;
  std::vector<Bucket> buckets_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEM_SHUFFLER_H_
