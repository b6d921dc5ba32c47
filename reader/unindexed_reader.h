// Reads shards of which not all have an index, from the first record on.

#ifndef SHARDFEED_READER_UNINDEXED_READER_H_
#define SHARDFEED_READER_UNINDEXED_READER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "reader/lazy_shard_table.h"
#include "reader/reader.h"
#include "shard/shard_reader.h"

namespace shardfeed {

// Delivers what a Reader of the same options delivers, but does not wait for the indexes: these are
// made by threads of its own while the caller's thread walks through the shards, record after
// record; as soon as all are there, a Reader goes on from where the walk has come to. The walk
// leaves everything that needs more than the records so far to that Reader: damage, the end of the
// epoch, and batches of all ranks that do not fit the budget.
//
// Not thread safe. May be destroyed at any time; indexes that are complete stay. A child after fork
// may not use one whose indexes were still being made: its thread does not exist there.
class UnindexedReader {
 public:
  // Whether reading can begin without an index: in sequential and interleave order, when all
  // records are read and damage is an error. (A shard that was cut has places for what it lost.)
  static bool CanRead(const ReaderOptions& options);

  // `stop` ends the making of indexes, and with it Next, with Cancelled. InvalidArgument: not
  // CanRead, or as Reader::Open.
  static absl::StatusOr<std::unique_ptr<UnindexedReader>> Open(
      std::shared_ptr<const LazyShardTable> table, ReaderOptions options,
      std::stop_token stop = {});
  ~UnindexedReader();

  // As Reader::Next; also errors of LazyShardTable::Get.
  absl::Status Next(ReadBlock* block);

  // The Reader, which stands where Next has come to; waits for the indexes. Owned by this object,
  // and what Next calls from here on.
  absl::StatusOr<Reader*> Indexed();
  // Whether it would not wait.
  bool indexed() const { return indexed_; }

  // Of both; what the walk read counts as one thread's.
  ReaderStats stats() const;

 private:
  // One of the shards that are read in turn.
  struct Slot {
    std::unique_ptr<ShardReader> reader;  // null: none
    RecordBlock block;
    size_t at = 0;  // the next record of `block`
    uint64_t file_position = 0;
    uint64_t kept_by = UINT64_MAX;  // number of the block that holds `block.buffer`
  };
  struct Walked {
    ReadBlock block;
    uint64_t frame_bytes = 0;
  };

  UnindexedReader(std::shared_ptr<const LazyShardTable> table, ReaderOptions options);
  // Walks on until there is a block of records of this rank; false at the end, and where the walk
  // cannot go on.
  bool Walk();
  void NextSlot();

  const std::shared_ptr<const LazyShardTable> table_;
  const ReaderOptions options_;

  // The walk.
  uint64_t budget_bytes_ = 0;
  std::vector<Slot> slots_;
  size_t slot_ = 0;
  size_t open_slots_ = 0;
  size_t next_shard_ = 0;
  uint64_t visited_ = 0;   // records of this visit of the slot
  uint64_t position_ = 0;  // position of the next record
  uint64_t next_block_ = 0;
  bool walk_ended_ = false;
  std::deque<Walked> walked_;   // not yet known to belong to whole batches
  uint64_t walked_bytes_ = 0;   // bytes in walked_
  uint64_t next_position_ = 0;  // position after what was delivered
  ReaderStats stats_;

  std::unique_ptr<Reader> reader_;
  absl::Status error_;
  std::atomic<bool> indexed_ = false;
  std::stop_source stop_;
  std::unique_ptr<std::stop_callback<std::function<void()>>> stop_from_;
  std::thread indexing_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_UNINDEXED_READER_H_
