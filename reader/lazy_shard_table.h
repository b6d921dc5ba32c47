// A dataset's shards as one list of records, once somebody asks for it.

#ifndef SHARDFEED_READER_LAZY_SHARD_TABLE_H_
#define SHARDFEED_READER_LAZY_SHARD_TABLE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "reader/shard_table.h"
#include "shard/spec.h"

namespace shardfeed {

// Indexes that are missing are made by the first who asks for the table. Thread safe; in a child
// after fork too, where indexes that the parent was just making are made anew.
class LazyShardTable {
 public:
  // Looks for the indexes. Errors: those of ShardTable::Open, except that an index is missing;
  // `options.stop` and `options.build_indexes` are of no use here.
  static absl::StatusOr<std::shared_ptr<LazyShardTable>> Open(ShardSet set,
                                                              ShardTableOptions options = {});
  explicit LazyShardTable(std::shared_ptr<const ShardTable> table);
  ~LazyShardTable();
  LazyShardTable(const LazyShardTable&) = delete;
  LazyShardTable& operator=(const LazyShardTable&) = delete;

  // Makes what is missing, or waits for the thread that does. Errors: as ShardTable::Open; the same
  // each time but for Cancelled, after which the next call begins anew.
  absl::StatusOr<std::shared_ptr<const ShardTable>> Get(std::stop_token stop = {}) const;
  // Whether Get would return at once.
  bool made() const { return making_.load()->made.load(); }

  // Empty if it was made of a table.
  const ShardSet& set() const { return set_; }
  size_t num_shards() const { return num_shards_; }

 private:
  struct Making {
    explicit Making(int by) : process(by) {}

    const int process;
    Mutex mutex;
    std::atomic<bool> made = false;
    absl::StatusOr<std::shared_ptr<const ShardTable>> table;
  };

  LazyShardTable(ShardSet set, ShardTableOptions options);

  const ShardSet set_;
  const ShardTableOptions options_;
  size_t num_shards_ = 0;
  mutable std::atomic<Making*> making_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_LAZY_SHARD_TABLE_H_
