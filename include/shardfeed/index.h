// Indexes of shards, and any record of a dataset by its number. docs/index.md has the format.

#ifndef SHARDFEED_INDEX_H_
#define SHARDFEED_INDEX_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardfeed/options.h"
#include "shardfeed/spec.h"

namespace shardfeed {

class ShardTable;

// What an index says about its shard as a whole.
struct IndexSummary {
  Compression compression = Compression::kNone;
  Framing framing = Framing::kTfRecord;
  uint32_t records_digest = 0;
  uint64_t shard_bytes = 0;   // size of the file
  uint64_t stream_bytes = 0;  // size of all frames before compression
  uint64_t records = 0;

  ShardFormat format() const { return {compression, framing}; }
};

// Returns what the index at `path` says about its shard. Reads only its head, which takes a few
// microseconds, so damage after the head is not noticed. Thread-safe. NotFound: there is no such
// file. DataLoss: it is not an index, or is damaged; IndexShard replaces it.
absl::StatusOr<IndexSummary> ReadIndexSummary(const std::string& path);

struct IndexBuildOptions {
  // Number of threads for one raw shard. More than one is worthwhile for shards of more than a few
  // hundred MiB.
  int threads = 1;
  // Size of the content between two restart points of a compressed shard, which is the most that a
  // random access inflates. Each point in a shard of another writer takes up to 32 KiB (compressed)
  // in the index.
  uint64_t restart_interval = 4 << 20;
  std::stop_token stop;
  // Counts the bytes of the shard that were passed, for progress; not all of them are read.
  std::atomic<uint64_t>* bytes_passed = nullptr;
  // Counts the bytes that were read.
  std::atomic<uint64_t>* bytes_read = nullptr;
  // Set to what users should know about a tar archive or an MDS shard: skipped members, repeated
  // keys, values that are not kept as they are. Only for the options of one shard.
  std::vector<std::string>* notes = nullptr;
};

// Walks the headers of the shard at `path` and writes its index: FOLDER/.shardfeed/NAME.index. An
// existing index is replaced in one step. Only the headers and footers of large records are read
// from raw shards; payloads are not checked. Compressed shards are inflated, and get restart
// points. From tar archives, the headers of the members are read (docs/webdataset.md), from MDS
// shards the offsets of the samples (docs/mds.md), and from ArrayRecord shards the footer
// (docs/arrayrecord.md). The lengths of records in an existing index are kept if it lists the same
// records (docs/index.md). Thread-safe for different shards.
//
// DataLoss: damage hides where records begin; the message names record and byte, and no index is
// written.
absl::StatusOr<IndexSummary> IndexShard(const std::string& path, const IndexBuildOptions& options);

// Records that were read by number. The views are valid as long as `buffers` live.
struct RecordSet {
  std::vector<std::string_view> records;  // records in the order of the requested numbers
  std::vector<std::shared_ptr<const void>> buffers;
};

// Reads records by number. They are numbered from 0 through all shards in their order. Both CRCs
// are checked. Thread-safe.
class RandomAccess {
 public:
  // Opens the shards, on `threads` threads (0: one per processor). Indexes that are missing or do
  // not fit are built in memory (headers only, for raw shards). Errors: those of IndexShard.
  // Aborted: the dataset was replaced meanwhile.
  static absl::StatusOr<std::unique_ptr<RandomAccess>> Open(const ShardSet& set, int threads = 0);

  ~RandomAccess();
  RandomAccess(const RandomAccess&) = delete;
  RandomAccess& operator=(const RandomAccess&) = delete;

  // Internal: on a table that is open already.
  explicit RandomAccess(std::shared_ptr<const ShardTable> table);
  const ShardTable& table() const { return *table_; }

  uint64_t num_records() const;

  // Returns the records with these numbers, which may be in any order and repeat. Neighbors are
  // read together, and reads run in parallel on `threads` threads (0: one per processor).
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

#endif  // SHARDFEED_INDEX_H_
