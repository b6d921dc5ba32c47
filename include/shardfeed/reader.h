// Reads the records of a dataset in a given order: from many shards in parallel, ahead of the
// consumer, in bounded memory.
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
  static constexpr uint64_t kToEnd = UINT64_MAX;  // a count up to the last record

  uint64_t first;
  uint64_t count;

  bool operator==(const RecordRange&) const = default;
};

// The weights of a mixture's sources from a position on, which is counted through all epochs and
// rounded up to a multiple of the lanes.
struct MixSegment {
  uint64_t position = 0;
  std::vector<double> weights;  // one for each source; empty: the numbers of their records
};

// One of a mixture's sources: this number of the shards that are read, which follow the shards of
// the preceding source.
struct MixSource {
  std::string name;
  size_t shards = 0;
  // The records that are read, counted from the first one of the source; nullopt: all.
  std::optional<std::vector<RecordRange>> records;
};

// Takes records of several sources by weight. docs/mixtures.md has the definition.
struct Mixture {
  std::vector<MixSource> sources;
  // By position; the first segment begins at 0.
  std::vector<MixSegment> schedule;
  // Number of records of an epoch; 0: the epoch ends before a source would have to repeat a record.
  // Each epoch continues every source where the preceding epoch ended.
  uint64_t length = 0;
  // Draws the sources at random instead of as evenly as possible.
  std::optional<uint64_t> seed;
};

// The order of an epoch. docs/order.md has the definitions.
struct OrderSpec {
  enum class Kind { kSequential, kInterleave, kShuffle };
  Kind kind = Kind::kSequential;

  // kInterleave: the order of tf.data's interleave over the shards.
  uint64_t cycle = 16;
  uint64_t block = 1;

  // kShuffle: the seed; every epoch has a different order.
  uint64_t seed = 0;
  // Size of the window within which records are shuffled, in records; 0: about 256 MiB by the mean
  // size of records. From the number of records on, it is an exact permutation of the epoch, and
  // records are read one by one.
  uint64_t window = 0;
  static constexpr uint64_t kAll = UINT64_MAX;
  // Number of neighboring records that are kept and read together; 0: about 1 MiB of them.
  uint64_t chunk = 0;
  // Number of parts of the epoch that are read in turn. Ranks read whole lanes if the number of
  // ranks divides it.
  uint64_t lanes = 64;

  // Mixes sources, each of which has an order of its own of this kind: kSequential or kShuffle,
  // whose window and chunk are divided among the sources by their weights. Null: there is only one
  // source.
  std::shared_ptr<const Mixture> mixture;
};

// Rows of several records, planned from the lengths that the indexes have of each (docs/index.md).
// docs/packing.md has the definition.
struct PackSpec {
  enum class How {
    kBestFit,      // whole sequences, each in the row with the least room that suffices
    kFirstFit,     // whole sequences, by their positions, each in the first row that has room
    kConcatenate,  // one sequence after the other, cut where a row ends
    // Each element of each sequence is a row: the steps of episodes. In a shuffled order, the rows
    // of a window are in random order.
    kSteps,
    // A row has sequences of similar length: as many as fit if each takes as much room as the
    // longest. A sequence that is longer than a row is a row of its own.
    kBatch,
  };
  // What happens to a sequence longer than a row, with kBestFit and kFirstFit.
  enum class Longer {
    kRefuse,    // the dataset is refused
    kTruncate,  // what exceeds a row is left out
    kSplit,     // it fills rows of its own, and the rest counts as a sequence
  };

  std::string lengths;  // name of the lengths
  uint64_t length = 0;  // elements of a row
  How how = How::kBestFit;
  Longer longer = Longer::kRefuse;
  // Number of consecutive records of the order whose sequences are packed together: 1,024 to
  // 1,048,576; 0: 16,384. They are held in memory in addition to what the order holds. With kSteps:
  // at least 1; 0: about 256 MiB of them, but at most 1,024.
  uint64_t window = 0;
  // With kSteps: the numbers of elements at the beginning and at the end of each sequence that do
  // not become rows.
  uint64_t steps_before = 0;
  uint64_t steps_after = 0;
  // Records whose lengths are less or greater are left out.
  uint64_t min_length = 0;
  uint64_t max_length = UINT64_MAX;
  // Whether each sequence has one more element at its end, which separates it from the next one.
  bool separated = false;
  // What is balanced among the rows that ranks take at the same time.
  enum class Cost {
    kLinear,     // elements: rows are full anyway, and stay in the order of their sequences
    kQuadratic,  // the squares of the lengths of sequences, which is the cost of attention
  };
  Cost cost = Cost::kLinear;
};

// A record that could not be read completely.
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

struct ReaderOptions {
  OrderSpec order;
  // Delivers the records that fill the rows of a packing, row by row: a record that is divided
  // among several rows is delivered with each of them. Ranks share rows instead of records, and
  // `batch` counts rows. Requires EpochEnd::kDrop, and ignores `deterministic`.
  std::optional<PackSpec> pack;
  // The records to read, as ranges of record numbers; nullopt: all.
  std::optional<std::vector<RecordRange>> records;
  uint64_t rank = 0;
  uint64_t world = 1;
  // Every rank delivers the same number of whole batches of this many records.
  uint64_t batch = 1;
  EpochEnd end = EpochEnd::kDrop;
  // Number of epochs; nullopt: without end.
  std::optional<uint64_t> epochs = 1;
  // What the ranks of an earlier run have left of the first epoch.
  std::shared_ptr<const Leftover> leftover;
  CrcCheck check_crc = CrcCheck::kAll;
  // Whether damaged records are skipped. Otherwise the first one ends reading with DataLoss.
  bool skip_damaged = false;
  // How many records per epoch are skipped before reading fails nevertheless.
  SkipCeiling max_skipped;
  // Called by Next for each damaged record that is skipped, before its block is returned.
  std::function<void(const DamagedRecord&)> on_skip;
  // Called with the notes on archives whose indexes had to be built (IndexBuildOptions::notes), if
  // there are any; by the thread that builds them.
  std::function<void(const std::vector<std::string>&)> on_notes;
  // Called by reading threads, concurrently, after each piece of work: "read" from storage or
  // "check" of `records` records, with its times (steady_clock).
  std::function<void(std::string_view what, uint64_t begin_ns, uint64_t end_ns, uint64_t records)>
      on_work;
  // Whether blocks keep their order. Otherwise they are delivered as they become ready.
  bool deterministic = true;
  // Records per block; 0: about 1 MiB of them (fewer in the first blocks, so that they arrive
  // early).
  uint64_t block_records = 0;
  int threads = 0;  // 0: one per processor
  // Maximum number of bytes for reading ahead and for the window, including the blocks that the
  // consumer keeps; 0: an eighth of the free memory, between 64 MiB (in stores 512 MiB) and 1 GiB.
  uint64_t budget_bytes = 0;
  // The pool of that memory, which consecutive readers may share to reuse it; null: a pool of its
  // own.
  std::shared_ptr<BufferPool> buffers;
  EngineKind io = EngineKind::kAuto;
  CacheUse page_cache = CacheUse::kAuto;
  // A folder of this machine that caches what is read from stores, for this and other processes. It
  // is created if it does not exist. Empty: no cache. Local data is not cached. See docs/stores.md.
  std::string cache;
  // Maximum size of the files in it in bytes; 0: the size of its file system, except for a reserve.
  uint64_t cache_size = 0;
};

// A row of a packing: consecutive records of a block.
struct PackedRow {
  uint64_t position = 0;  // position of its first record; record i has this position + i
  uint64_t records = 0;
};

// Consecutive records of the order. The views are valid as long as `buffers` live.
struct ReadBlock {
  std::vector<std::string_view> records;
  std::vector<std::shared_ptr<const void>> buffers;
  uint64_t epoch = 0;
  // Position of records[0] in the epoch; records[i] has the position + i * stride.
  uint64_t position = 0;
  uint64_t stride = 1;
  // The position of records[0] in the order that the states of this run count in; the distances of
  // the others are multiples of the number of ranks. The same as `position`, except after a resume
  // with another number of ranks.
  uint64_t place = 0;
  // Number of records at the end that are padding.
  uint64_t padded = 0;
  // Indices of the records that are empty because they were damaged.
  std::vector<uint32_t> damaged;
  // With ReaderOptions::pack: the rows that the records fill, instead of `position` and `stride`.
  std::vector<PackedRow> rows;
  // Where all ranks are after these rows: a position, and the number of rows before it in the round
  // of batches that is incomplete there.
  uint64_t next_position = 0;
  uint64_t next_phase = 0;
};

struct ReaderStats {
  uint64_t records = 0;          // records delivered
  uint64_t bytes = 0;            // size of their frames
  uint64_t bytes_read = 0;       // bytes read from files
  uint64_t reads = 0;            // read requests
  uint64_t skipped = 0;          // damaged records
  std::string io;                // "threads", "uring", "mmap", "http"; "pread": only streams
  std::string io_reason;         // why `io` was chosen
  std::string io_registered;     // buffers registered with the ring, or why none are
  uint64_t max_queue_depth = 0;  // largest number of requests in flight
  uint64_t stalls = 0;           // calls of Next that had to wait
  double stall_seconds = 0;
  uint64_t peak_buffer_bytes = 0;
  bool whole_chunks = true;  // false if records are read one by one: the window exceeds the budget
  int threads = 0;
};

// The memory that an order needs.
struct MemoryPlan {
  // Whether chunks are read as a whole. Otherwise records are read one by one, because the order is
  // an exact permutation, or because the open chunks exceed the budget.
  bool whole_chunks = true;
  uint64_t held_bytes = 0;  // bytes held by the window and by reading ahead
  uint64_t budget_bytes = 0;
};

// Not thread-safe, except stats. The reading threads start with the first Next. A reader may be
// destroyed at any time; blocks that it has returned stay valid.
class RecordReader {
 public:
  // Opens the dataset that `spec` names (docs/specs.md). Missing indexes are built first.
  //
  // Errors: those of ResolveSpec, of opening shards and indexes, and of opening `cache`;
  // InvalidArgument: options that contradict each other or the dataset.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& spec,
                                                            ReaderOptions options = {});
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const ShardSet& set,
                                                            ReaderOptions options = {});
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Returns the next records, or a block without records at the end of the last epoch. A block
  // never has records of two epochs. After an error (DataLoss for damage, which names shard, record
  // and byte; otherwise the error of the storage) every further call returns the same error.
  absl::Status Next(ReadBlock* block);

  // The state after the records delivered so far: a JSON document of a few hundred bytes.
  // FailedPrecondition: the reader is not `deterministic`.
  absl::StatusOr<std::string> StateDict() const;
  // Continues from a saved state, whatever was read so far. The number of ranks may differ.
  // FailedPrecondition: the state is of other data or another order. InvalidArgument: not a state.
  absl::Status LoadStateDict(std::string_view state);

  // Number of records in the dataset.
  uint64_t num_records() const;
  // Number of batches and of records that each rank delivers per epoch.
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
