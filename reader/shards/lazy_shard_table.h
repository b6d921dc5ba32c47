// The shards of a dataset as one list of records, opened on demand.

#ifndef SHARDFEED_READER_SHARDS_LAZY_SHARD_TABLE_H_
#define SHARDFEED_READER_SHARDS_LAZY_SHARD_TABLE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <thread>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "reader/shards/shard_table.h"
#include "shard/spec/spec.h"

namespace shardfeed {

// The first caller that needs the table builds missing indexes. Thread-safe, also in a child
// process after fork, where indexes that the parent was building are built again.
class LazyShardTable {
 public:
  // Looks for the indexes. Errors: those of ShardTable::Open, except for a missing index;
  // `options.stop` and `options.build_indexes` are not used here.
  static absl::StatusOr<std::shared_ptr<LazyShardTable>> Open(ShardSet set,
                                                              ShardTableOptions options = {});
  explicit LazyShardTable(std::shared_ptr<const ShardTable> table);
  ~LazyShardTable();
  LazyShardTable(const LazyShardTable&) = delete;
  LazyShardTable& operator=(const LazyShardTable&) = delete;

  // Builds what is missing, or waits for the thread that does. Errors: see ShardTable::Open; every
  // call returns the same, except that after Cancelled the next call starts again. Cancelled:
  // `stop` was asked for, or the work of the thread is not needed any more (see WorkStop). If the
  // thread that builds runs signal handlers (see SignalHandling), another one builds as well.
  absl::StatusOr<std::shared_ptr<const ShardTable>> Get(std::stop_token stop = {}) const;
  // Whether Get would return immediately.
  bool made() const { return making_.load()->made.load(); }

  // Empty if it was made from a table.
  const ShardSet& set() const { return set_; }
  size_t num_shards() const { return num_shards_; }

 private:
  struct Making {
    explicit Making(int by) : process(by) {}

    const int process;
    Mutex mutex;
    std::atomic<bool> made = false;
    // Written once, under the mutex and before `made` is set; read only when that is set.
    absl::StatusOr<std::shared_ptr<const ShardTable>> table;
    CondVar changed;
    std::thread::id maker ABSL_GUARDED_BY(mutex);  // the thread that makes the table, if one does
  };

  LazyShardTable(ShardSet set, ShardTableOptions options);

  const ShardSet set_;
  const ShardTableOptions options_;
  size_t num_shards_ = 0;
  mutable std::atomic<Making*> making_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_SHARDS_LAZY_SHARD_TABLE_H_
