// What a reader is asked for, and what it delivers.

#ifndef SHARDFEED_READER_READER_OPTIONS_H_
#define SHARDFEED_READER_READER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/buffer.h"
#include "io/engine.h"
#include "reader/io_choice.h"
#include "reader/leftover.h"
#include "reader/order.h"
#include "reader/selection.h"
#include "reader/unit.h"
#include "shard/skipped_records.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// How an epoch ends when its records cannot be divided evenly among the ranks' batches.
enum class EpochEnd {
  kDrop,  // the records of the last, incomplete round of batches are not delivered
  kPad,   // the epoch's first records are delivered again, marked as padding
  kWrap,  // the same, not marked
};

// What is done with records that are damaged.
struct DamagePolicy {
  // false: the first one ends the reading with DataLoss.
  bool skip = false;
  // How many records of an epoch this reader skips before it fails all the same.
  SkipCeiling max_skipped;
};

struct ReaderOptions {
  OrderSpec order;
  // The records that are read, as ranges of record numbers; all if nullopt.
  std::optional<std::vector<RecordRange>> records;
  uint64_t rank = 0;
  uint64_t world = 1;
  // Every rank delivers the same number of whole batches of this many records.
  uint64_t batch = 1;
  EpochEnd end = EpochEnd::kDrop;
  // nullopt: without end.
  std::optional<uint64_t> epochs = 1;
  // Where other ranks left the epoch that the run begins with.
  std::optional<Leftover> leftover;
  CrcCheck check = CrcCheck::kAll;
  DamagePolicy damage;
  // Called by Next, for each damaged record that is skipped, before the block with it is returned.
  std::function<void(const DamagedRecord&)> on_skip;
  // Called by reading threads, at once on several: what one did and when (steady_clock), "read"
  // from storage or "check" of so many records.
  std::function<void(std::string_view what, uint64_t begin_ns, uint64_t end_ns, uint64_t records)>
      on_work;
  // false: blocks come as they are ready, not in the order.
  bool deterministic = true;
  // Records in a block; 0: about 1 MiB of them (and fewer in the first blocks, so that they come
  // soon).
  uint64_t block_records = 0;
  int threads = 0;  // 0: one per processor
  // Memory for records that are read ahead or held by the window, in bytes; 0: an eighth of what is
  // free, at least 64 MiB and at most 1 GiB. Blocks that the consumer keeps count too.
  uint64_t budget_bytes = 0;
  // Where that memory comes from, for several readers one after another, which then use it again;
  // null: a pool of its own.
  std::shared_ptr<BufferPool> buffers;
  EngineKind io = EngineKind::kAuto;
  CacheUse cache = CacheUse::kAuto;
};

// Records one after another in the order. The views live as long as `buffers` do.
struct ReadBlock {
  std::vector<std::string_view> records;
  std::vector<std::shared_ptr<const void>> buffers;
  uint64_t epoch = 0;
  // Position of records[0] in the epoch; the others follow at distances of `stride`.
  uint64_t position = 0;
  uint64_t stride = 1;
  // Where a ReadPlace counts records[0]; the others follow at distances of the number of ranks.
  // The same as `position` but for what is a Leftover's.
  uint64_t place = 0;
  // So many of the last records are padding.
  uint64_t padded = 0;
  // Which records were damaged and are empty for that reason.
  std::vector<uint32_t> damaged;
};

struct ReaderStats {
  uint64_t records = 0;          // delivered
  uint64_t bytes = 0;            // of their frames
  uint64_t bytes_read = 0;       // from files
  uint64_t reads = 0;            // requests, of raw shards
  uint64_t skipped = 0;          // damaged records
  std::string io;                // "threads", "uring", "mmap"; "pread": compressed shards
  std::string io_reason;         // why
  std::string io_registered;     // as EngineStats has it
  uint64_t max_queue_depth = 0;  // requests in flight at once
  uint64_t stalls = 0;           // calls of Next that had to wait
  double stall_seconds = 0;
  uint64_t peak_buffer_bytes = 0;
  bool whole_chunks = true;  // false: the window does not fit the budget; records are read singly
  int threads = 0;
};

// What an order needs in memory.
struct MemoryPlan {
  // false: records are read one by one, for the order is the exact permutation, or the chunks that
  // are open at a time do not fit the budget.
  bool whole_chunks = true;
  uint64_t held_bytes = 0;  // by the window and by reading ahead
  uint64_t budget_bytes = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_READER_OPTIONS_H_
