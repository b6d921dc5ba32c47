// Reads shards whose indexes are not complete yet, from the first record on.

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
#include "reader/reader.h"
#include "reader/shards/lazy_shard_table.h"
#include "shard/formats/shard_reader.h"

namespace shardfeed {

// Delivers the same as a Reader with the same options, but does not wait for the indexes: threads
// of its own build these while the caller's thread walks through the shards, record after record.
// Once all indexes are built, a Reader continues from the walk's position. The walk leaves to that
// Reader everything that needs more than the records so far: damage, the end of the epoch, and
// batches of all ranks that do not fit the budget.
//
// Not thread-safe. May be destroyed at any time; completed indexes remain. Must not be used in a
// child after fork if its indexes were still being built, because its thread does not exist there.
class UnindexedReader {
 public:
  // Whether reading can begin without an index: in sequential and interleaved order, if all records
  // are read and damage is an error. (A truncated shard has positions for its lost records.)
  static bool CanRead(const ReaderOptions& options);

  // `stop` makes building indexes, and with it Next, end with Cancelled. InvalidArgument: CanRead
  // is false, or as for Reader::Open.
  static absl::StatusOr<std::unique_ptr<UnindexedReader>> Open(
      std::shared_ptr<const LazyShardTable> table, ReaderOptions options,
      std::stop_token stop = {});
  ~UnindexedReader();

  // As Reader::Next; also errors of LazyShardTable::Get.
  absl::Status Next(ReadBlock* block);

  // The Reader at the position of Next; waits for the indexes. Owned by this object; Next uses it
  // from here on.
  absl::StatusOr<Reader*> Indexed();
  // Whether Indexed would return without waiting.
  bool indexed() const { return indexed_; }

  // The statistics of both; the walk's reads count as those of one thread.
  ReaderStats stats() const;

 private:
  // One of the shards that are read in turn.
  struct Slot {
    std::unique_ptr<ShardReader> reader;  // null if the slot is empty
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
  // Continues the walk until there is a block of records of this rank. Returns false at the end, or
  // where the walk cannot continue.
  bool Walk();
  void NextSlot();

  const std::shared_ptr<const LazyShardTable> table_;
  const ReaderOptions options_;

  // State of the walk.
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
  uint64_t next_position_ = 0;  // position after the delivered records
  ReaderStats stats_;

  std::unique_ptr<Reader> reader_;
  absl::Status error_;
  std::atomic<bool> indexed_ = false;
  std::atomic<bool> readable_ = false;  // whether all indexes exist, so that a Reader can read
  std::stop_source stop_;
  std::unique_ptr<std::stop_callback<std::function<void()>>> stop_from_;
  std::thread indexing_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_UNINDEXED_READER_H_
