// Length columns: how many values (tokens, samples, bytes) each record of a shard has in one of its
// features, so that packing, buckets and filters are planned without reading records. They follow
// everything else in the shard's index; docs/index.md has the layout.

#ifndef SHARDFEED_SHARD_INDEX_LENGTH_COLUMN_H_
#define SHARDFEED_SHARD_INDEX_LENGTH_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/little_endian.h"

namespace shardfeed {

// One column of an open index (ShardIndex::lengths): a view, cheap to copy, that lives as long as
// the index. Thread-safe.
class LengthColumn {
 public:
  std::string_view name() const { return name_; }
  // The length of `record`, which must be less than the records of the shard.
  uint64_t At(uint64_t record) const {
    // Reads past the last number, but not past the trailer of the index.
    return LoadLittleEndian<uint64_t>(lengths_ + record * width_) & mask_;
  }
  // The largest length, and the sum of all; 0 without records.
  uint64_t max() const { return max_; }
  uint64_t total() const { return total_; }

 private:
  friend std::optional<std::vector<LengthColumn>> ReadLengthColumns(std::string_view index,
                                                                    uint64_t begin,
                                                                    uint64_t records);

  std::string_view name_;
  const char* lengths_ = nullptr;
  size_t width_ = 1;
  uint64_t mask_ = 0;
  uint64_t max_ = 0;
  uint64_t total_ = 0;
};

// A column to be written.
struct NewLengthColumn {
  std::string name;               // 1 to 65,535 bytes
  std::vector<uint64_t> lengths;  // one for each record; their sum must fit 64 bits
};

// Returns the columns at the end of the bytes of an index, ordered by name; none if it does not end
// with columns. What precedes them ends at `begin`. nullopt: the columns contradict themselves.
std::optional<std::vector<LengthColumn>> ReadLengthColumns(std::string_view index, uint64_t begin,
                                                           uint64_t records);

// Returns the bytes of `columns` and of those of `kept` that have other names; empty if there are
// none. `begin` is their offset in the index.
//
// InvalidArgument: a column without a name, with a name that is too long or appears twice, with
// another number of lengths than the shard has records, or with lengths whose sum exceeds 64 bits.
absl::StatusOr<std::string> FormatLengthColumns(const std::vector<LengthColumn>& kept,
                                                absl::Span<const NewLengthColumn> columns,
                                                uint64_t begin, uint64_t records);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_INDEX_LENGTH_COLUMN_H_
