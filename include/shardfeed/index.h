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

// What an index says of its shard as a whole.
struct IndexSummary {
  Compression compression = Compression::kNone;
  Framing framing = Framing::kTfRecord;
  uint32_t records_digest = 0;
  uint64_t shard_bytes = 0;   // size of the file
  uint64_t stream_bytes = 0;  // size of all frames before compression
  uint64_t records = 0;

  ShardFormat format() const { return {compression, framing}; }
};

// What the index at `path` says of its shard, from its head alone: a few microseconds. Errors as
// ShardIndex::Open; damage behind the head is not seen.
absl::StatusOr<IndexSummary> ReadIndexSummary(const std::string& path);

struct IndexBuildOptions {
  // Threads for one raw shard; more than one pays from some hundred MiB on.
  int threads = 1;
  // Content between two restart points of a compressed shard: what a random access inflates at
  // most. Each point in foreign data costs up to 32 KiB (compressed) in the index.
  uint64_t restart_interval = 4 << 20;
  std::stop_token stop;
  // Adds up bytes of the shard that were passed (not all are read): for progress.
  std::atomic<uint64_t>* bytes_passed = nullptr;
  // Adds up bytes that were really read.
  std::atomic<uint64_t>* bytes_read = nullptr;
  // Set to what users should know of a tar archive or an MDS shard: members that are skipped, keys
  // that are repeated, values that are not kept as they are. For the options of one shard.
  std::vector<std::string>* notes = nullptr;
};

// Walks the headers of the shard at `path` and writes its index to IndexPath(path), replacing what
// is there in one step. Of raw shards only headers and footers are read where records are large;
// payloads are not checked. Compressed shards are inflated, and get restart points. Of tar
// archives, the headers of the members are read (docs/webdataset.md), of MDS shards the offsets of
// the samples (docs/mds.md), and of ArrayRecord shards the footer (docs/arrayrecord.md). Lengths of
// records that the former index has stay if it lists the same records (docs/index.md).
//
// DataLoss, and no index: damage that keeps records from being told apart, with record and byte.
absl::StatusOr<IndexSummary> WriteIndex(const std::string& path, const IndexBuildOptions& options);

// Records by number. The views live as long as `buffers` do.
struct RecordSet {
  std::vector<std::string_view> records;  // records in the order of the requested numbers
  std::vector<std::shared_ptr<const void>> buffers;
};

// Records are numbered from 0 through all shards in their order. Thread safe. Both CRCs are
// checked.
class RandomAccess {
 public:
  // Opens the table, on `threads` threads; indexes that are missing or do not fit are built in
  // memory (headers only, for raw shards).
  static absl::StatusOr<std::unique_ptr<RandomAccess>> Open(const ShardSet& set, int threads = 0);

  ~RandomAccess();
  RandomAccess(const RandomAccess&) = delete;
  RandomAccess& operator=(const RandomAccess&) = delete;

  // Internal: on a table that is open already.
  explicit RandomAccess(std::shared_ptr<const ShardTable> table);
  const ShardTable& table() const { return *table_; }

  uint64_t num_records() const;

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

#endif  // SHARDFEED_INDEX_H_
