// Reads the records of a dataset in an order: many shards at once, ahead of the consumer, in
// bounded memory.
//
//   absl::StatusOr<std::unique_ptr<RecordReader>> reader = RecordReader::Open(
//       "train@64", {.order = {.kind = OrderSpec::Kind::kShuffle, .seed = 1}});
//   for (ReadBlock block; (*reader)->Next(&block).ok() && !block.records.empty();) {
//     for (std::string_view record : block.records) Use(record);
//   }

#ifndef SHARDFEED_READER_H_
#define SHARDFEED_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/options.h"
#include "shardfeed/spec.h"

namespace shardfeed {

class BufferPool;
class Reader;
class ShardTable;
struct Leftover;

// Records `first` to `first` + `count` - 1 of a dataset.
struct RecordRange {
  uint64_t first;
  uint64_t count;

  bool operator==(const RecordRange&) const = default;
};

// The order of an epoch. docs/order.md has the definitions.
struct OrderSpec {
  enum class Kind { kSequential, kInterleave, kShuffle };
  Kind kind = Kind::kSequential;

  // Interleave: as tf.data's interleave over the shards orders elements.
  uint64_t cycle_length = 16;
  uint64_t block_length = 1;

  // Shuffle, by a key of its own for each epoch.
  uint64_t seed = 0;
  // A record comes within a window of so many positions; 0: a default from the records' mean size
  // (about 256 MiB). At least the number of items: any place of the epoch is equally likely, and
  // records are read one by one.
  uint64_t window = 0;
  static constexpr uint64_t kAll = UINT64_MAX;
  // Records that stand, and are read, together; 0: about 1 MiB of them.
  uint64_t chunk = 0;
  // Parts of the epoch that advance side by side; ranks get whole lanes when W divides the number.
  uint64_t lanes = 64;
};

// A record that could not be read whole.
struct DamagedRecord {
  uint64_t record = 0;  // number of the record in the dataset
  std::string path;     // path of the shard
  uint64_t shard_record = 0;
  uint64_t offset = 0;  // offset of its frame in the (decompressed) shard
  std::string what;     // "payload CRC", "cut payload" ...

  // "PATH: record R at byte B: WHAT"
  std::string Message() const;
};

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
  std::shared_ptr<const Leftover> leftover;
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
  uint64_t bytes = 0;            // size of their frames
  uint64_t bytes_read = 0;       // bytes read from files
  uint64_t reads = 0;            // requests, of raw shards
  uint64_t skipped = 0;          // damaged records
  std::string io;                // "threads", "uring", "mmap"; "pread": compressed shards
  std::string io_reason;         // why
  std::string io_registered;     // buffers registered with the ring, or why none are
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
  uint64_t held_bytes = 0;  // bytes held by the window and by reading ahead
  uint64_t budget_bytes = 0;
};

// Not thread-safe: one thread at a time calls the functions, except stats, which any thread may
// call. The reading threads start with the first Next. A reader may be destroyed at any time;
// blocks that are out stay valid.
class RecordReader {
 public:
  // Opens the dataset that `spec` names (docs/specs.md). Indexes that are missing are built first.
  //
  // Errors: those of ResolveSpec, and of opening shards and indexes; InvalidArgument: options that
  // contradict each other or the dataset.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& spec,
                                                            ReaderOptions options = {});
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const ShardSet& set,
                                                            ReaderOptions options = {});
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Returns the next records; a block without records is the end of the last epoch. No block has
  // records of two epochs. After an error (DataLoss for damage, with shard, record and byte;
  // otherwise what the storage reports) each further call returns it again.
  absl::Status Next(ReadBlock* block);

  // Where reading stands, in records delivered: a JSON document of some hundred bytes.
  // FailedPrecondition: the reader is not `deterministic`, so there is no such place.
  absl::StatusOr<std::string> StateDict() const;
  // Goes to a saved place, whatever was read so far; the number of ranks may be another one.
  // FailedPrecondition: the state is of other data or another order. InvalidArgument: not a state.
  absl::Status LoadStateDict(std::string_view state);

  // Records of the dataset.
  uint64_t num_records() const;
  // Batches, and records, that this and every other rank delivers in an epoch.
  uint64_t batches_per_epoch() const;
  uint64_t records_per_epoch() const;

  MemoryPlan memory_plan() const;
  ReaderStats stats() const;

 private:
  explicit RecordReader(std::unique_ptr<Reader> reader);

  const std::unique_ptr<Reader> reader_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_H_
