// Any record of a dataset by its number.

#ifndef SHARDFEED_READER_RANDOM_ACCESS_H_
#define SHARDFEED_READER_RANDOM_ACCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "reader/shard_table.h"
#include "shard/spec.h"

namespace shardfeed {

// Records by number. The views live as long as `buffers` do.
struct RecordSet {
  std::vector<std::string_view> records;  // in the order of the numbers asked for
  std::vector<std::shared_ptr<const void>> buffers;
};

// Records are numbered from 0 through all shards in their order. Thread safe. Both CRCs are
// checked.
class RandomAccess {
 public:
  explicit RandomAccess(std::shared_ptr<const ShardTable> table) : table_(std::move(table)) {}
  // Opens the table, on `threads` threads; indexes that are missing or do not fit are built in
  // memory (headers only, for raw shards).
  static absl::StatusOr<std::unique_ptr<RandomAccess>> Open(const ShardSet& set, int threads);

  const ShardTable& table() const { return *table_; }
  uint64_t num_records() const { return table_->num_records(); }

  // The records with these numbers, in any order and as often as asked for. Neighbours are read
  // together, and all reads go side by side on `threads` threads (0: one per processor).
  //
  // OutOfRange: a number is not below num_records(). DataLoss: damage, or an index that does not
  // fit.
  absl::StatusOr<RecordSet> Get(absl::Span<const uint64_t> numbers, int threads = 0) const;

  // Calls `consume` for the records [begin, end) in order. The payload lives until it returns.
  // Errors as Get.
  absl::Status Read(
      uint64_t begin, uint64_t end,
      const std::function<absl::Status(uint64_t number, std::string_view payload)>& consume) const;

 private:
  const std::shared_ptr<const ShardTable> table_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RANDOM_ACCESS_H_
