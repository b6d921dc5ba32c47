// Any record of a dataset by its number.

#ifndef SHARDFEED_READER_RANDOM_ACCESS_H_
#define SHARDFEED_READER_RANDOM_ACCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/index.h"
#include "shard/spec.h"

namespace shardfeed {

// Records are numbered from 0 through all shards in their order. Thread safe; keeps the indexes of
// all shards, and opens a shard for each call.
class RandomAccess {
 public:
  // Opens the indexes, on `threads` threads; those that are missing or do not fit are built in
  // memory (headers only, for raw shards).
  static absl::StatusOr<std::unique_ptr<RandomAccess>> Open(const ShardSet& set, int threads);

  uint64_t num_records() const { return starts_.back(); }
  size_t num_shards() const { return indexes_.size(); }
  const ShardIndex& index(size_t shard) const { return *indexes_[shard]; }

  // Calls `consume` for the records [begin, end) in order. The payload lives until it returns. Both
  // CRCs are checked.
  //
  // OutOfRange: `end` is beyond num_records(). DataLoss: damage, or an index that does not fit.
  absl::Status Read(
      uint64_t begin, uint64_t end,
      const std::function<absl::Status(uint64_t number, std::string_view payload)>& consume) const;

 private:
  RandomAccess() = default;

  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const ShardIndex>> indexes_;
  std::vector<uint64_t> starts_;  // number of each shard's first record; one more for the end
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RANDOM_ACCESS_H_
