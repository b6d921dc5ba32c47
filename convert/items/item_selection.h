// Decides for each item of a source into which split it goes and whether it is a duplicate.

#ifndef SHARDFEED_CONVERT_ITEMS_ITEM_SELECTION_H_
#define SHARDFEED_CONVERT_ITEMS_ITEM_SELECTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/items/source.h"
#include "convert/items/split_names.h"

namespace shardfeed {

struct SelectionOptions {
  // Shares of the outputs, which add up to 1. An item goes to output k if its KeyHash, as a
  // fraction of 2^64, lies between the sum of the shares before k and the sum up to k.
  std::vector<double> shares = {1.0};
  // If above 0, there are as many outputs, and an item goes to that of Source::SplitOf instead.
  size_t num_splits = 0;
  // Whether to keep only the first of items with the same content.
  bool deduplicate = false;
  // If set, an item whose content cannot be read (DataLoss) is a duplicate of none instead of an
  // error.
  bool skip_defects = false;
  int threads = 0;
  std::string directory;  // for files with what does not fit into memory
  size_t memory_bytes = 64 << 20;
  std::stop_token stop;
  std::atomic<uint64_t>* items_passed = nullptr;  // counts items for progress
};

// Takes one byte per item. Immutable.
class ItemSelection {
 public:
  // Reads all items of `source` once, after its Scan. Errors: those of the source.
  static absl::StatusOr<ItemSelection> Make(const Source& source, const SelectionOptions& options);

  static constexpr uint8_t kNowhere = 255;
  static constexpr size_t kMaxOutputs = kMaxSplits;
  // The output of item `number`, in the order of Source::ForEach; kNowhere for duplicates.
  uint8_t OutputOf(uint64_t number) const { return outputs_[number]; }
  uint64_t num_items() const { return outputs_.size(); }
  uint64_t CountOf(size_t output) const { return counts_[output]; }
  uint64_t num_duplicates() const { return num_duplicates_; }

 private:
  std::vector<uint8_t> outputs_;
  std::vector<uint64_t> counts_;
  uint64_t num_duplicates_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_ITEM_SELECTION_H_
