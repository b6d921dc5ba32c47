#include "convert/items/item_selection.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/little_endian.h"
#include "convert/input/fingerprint.h"
#include "convert/items/item_batch.h"
#include "convert/items/item_sorter.h"
#include "io/parallel.h"

namespace shardfeed {
namespace {

// Maximum work of a thread at a time.
constexpr size_t kBatchItems = 1024;
constexpr size_t kBatchBytes = 1 << 20;
// Items whose keys agree in these bits stay together in the sorter.
constexpr uint64_t kSortedBits = ~uint64_t{15};

// Results for the items of a batch.
struct Looked {
  std::vector<uint8_t> outputs;
  std::vector<Hash128> contents;
};

absl::Status Look(const Source& source, const ItemBatch& batch, const std::vector<uint64_t>& bounds,
                  const SelectionOptions& options, uint64_t first_number, Looked& looked) {
  thread_local std::string key;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Item item = batch[i];
    uint8_t output = 0;
    if (options.num_splits > 0) {
      const absl::StatusOr<size_t> split = source.SplitOf(item);
      if (!split.ok()) return split.status();
      output = static_cast<uint8_t>(*split);
    } else if (!bounds.empty()) {
      key.clear();
      absl::Status status = source.AppendKey(item, &key);
      if (!status.ok()) return status;
      output = std::upper_bound(bounds.begin(), bounds.end(), KeyHash(key)) - bounds.begin();
    }
    looked.outputs.push_back(output);
    if (!options.deduplicate) continue;
    Fingerprint content;
    absl::Status status =
        source.VisitContent(item, [&content](std::string_view bytes) { content.Add(bytes); });
    if (!status.ok() && options.skip_defects && absl::IsDataLoss(status)) {
      // Hash the item's number too, so that it equals no other item.
      content = Fingerprint();
      content.Add("broken");
      content.Add(first_number + i);
    } else if (!status.ok()) {
      return status;
    }
    looked.contents.push_back(content.value());
  }
  return absl::OkStatus();
}

// Returns the upper bounds of all splits except the last, as fractions of 2^64.
std::vector<uint64_t> BoundsOf(const std::vector<double>& shares) {
  std::vector<uint64_t> bounds;
  double sum = 0;
  for (size_t i = 0; i + 1 < shares.size(); ++i) {
    sum += shares[i];
    bounds.push_back(static_cast<uint64_t>(std::ldexp(std::min(sum, 1.0 - 0x1p-53), 64)));
  }
  return bounds;
}

}  // namespace

absl::StatusOr<ItemSelection> ItemSelection::Make(const Source& source,
                                                  const SelectionOptions& options) {
  ItemSelection selection;
  selection.outputs_.reserve(source.num_records());
  const std::vector<uint64_t> bounds = BoundsOf(options.shares);
  const int threads = ThreadCount(options.threads);
  ItemSorter sorter(options.directory, options.memory_bytes);
  std::vector<ItemBatch> batches(1);
  const auto look_at_all = [&]() -> absl::Status {
    std::vector<Looked> looked(batches.size());
    std::vector<uint64_t> first(batches.size(), selection.outputs_.size());
    for (size_t i = 1; i < batches.size(); ++i) first[i] = first[i - 1] + batches[i - 1].size();
    absl::Status status = ParallelFor(batches.size(), threads, options.stop, [&](size_t i) {
      return Look(source, batches[i], bounds, options, first[i], looked[i]);
    });
    if (!status.ok()) return status;
    for (const Looked& one : looked) {
      for (size_t i = 0; i < one.contents.size(); ++i) {
        char entry[24];
        StoreLittleEndian(one.contents[i].high, entry);
        StoreLittleEndian(one.contents[i].low, entry + 8);
        StoreLittleEndian<uint64_t>(selection.outputs_.size() + i, entry + 16);
        status = sorter.Add(one.contents[i].high & kSortedBits, {.bytes = {entry, sizeof(entry)}});
        if (!status.ok()) return status;
      }
      selection.outputs_.insert(selection.outputs_.end(), one.outputs.begin(), one.outputs.end());
    }
    if (options.items_passed != nullptr) *options.items_passed = selection.outputs_.size();
    batches.assign(1, ItemBatch());
    return absl::OkStatus();
  };
  absl::Status status = source.ForEach([&](const Item& item) -> absl::Status {
    batches.back().Add(item);
    if (batches.back().size() < kBatchItems && batches.back().num_bytes() < kBatchBytes) {
      return absl::OkStatus();
    }
    if (batches.size() == 4 * static_cast<size_t>(threads)) return look_at_all();
    batches.emplace_back();
    return absl::OkStatus();
  });
  if (status.ok()) status = look_at_all();
  if (!status.ok()) return status;

  // Equal contents are adjacent, with the lowest number first.
  uint64_t key = 0;
  std::vector<Hash128> seen;  // hashes that share the key
  status = sorter.ForEach([&](const Item& item) {
    const Hash128 content = {LoadLittleEndian<uint64_t>(item.bytes.data()),
                             LoadLittleEndian<uint64_t>(item.bytes.data() + 8)};
    const auto number = LoadLittleEndian<uint64_t>(item.bytes.data() + 16);
    if (seen.empty() || (content.high & kSortedBits) != key) seen.clear();
    key = content.high & kSortedBits;
    if (std::find(seen.begin(), seen.end(), content) == seen.end()) {
      seen.push_back(content);
    } else {
      selection.outputs_[number] = kNowhere;
      ++selection.num_duplicates_;
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  selection.counts_.assign(options.num_splits > 0 ? options.num_splits : options.shares.size(), 0);
  for (uint8_t output : selection.outputs_) {
    if (output != kNowhere) ++selection.counts_[output];
  }
  return selection;
}

}  // namespace shardfeed
