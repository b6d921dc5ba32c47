#include "decode/features/name_table.h"

#include <bit>

namespace shardfeed {

NameTable::NameTable(absl::Span<const std::string> names) {
  for (const std::string& name : names) entries_.push_back({WordOf(name), name});
  // At most a quarter full, so that names that were not requested rarely share a bucket with one
  // that was.
  const uint32_t num_buckets = std::bit_ceil(4 * static_cast<uint32_t>(entries_.size()) + 1);
  buckets_.assign(num_buckets, kNone);
  mask_ = num_buckets - 1;
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    uint32_t bucket = Bucket(entries_[i].word);
    while (buckets_[bucket] != kNone) bucket = (bucket + 1) & mask_;
    buckets_[bucket] = i;
  }
}

}  // namespace shardfeed
