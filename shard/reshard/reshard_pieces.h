// What resharding reads of its input: pieces of shards; and how they are copied without looking
// into records.

#ifndef SHARDFEED_SHARD_RESHARD_RESHARD_PIECES_H_
#define SHARDFEED_SHARD_RESHARD_RESHARD_PIECES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "shard/reshard/record_selection.h"
#include "shard/reshard/reshard_input.h"
#include "shard/writing/finished_shards.h"
#include "shardfeed/options.h"

namespace shardfeed {

// Records [begin, end) of one shard of the input.
struct Piece {
  size_t shard;
  uint64_t begin;
  uint64_t end;
};

// Splits a run at shard boundaries, and stops at the first error of `visit`.
absl::Status ForEachPiece(const ReshardInput& input, RecordRun run,
                          const std::function<absl::Status(Piece)>& visit);

// The error for a record, numbered within its shard.
absl::Status RecordError(const ReshardInput& input, size_t shard, uint64_t record,
                         std::string_view what);
// The error for a record at which the index does not match.
absl::Status IndexError(const ReshardInput& input, size_t shard, uint64_t record);

// Computes the digests of raw shards whose records are all taken once, from the digests of their
// pieces, which several threads report in any order.
class WholeDigests {
 public:
  // `taken` has the number of records of each shard if all are taken once and in order, otherwise
  // 0.
  WholeDigests(const ReshardInput& input, const std::vector<uint64_t>& taken);

  // Thread-safe.
  void Add(const Piece& piece, uint32_t digest);
  // Compares the digests with those in the indexes, once all records have been reported.
  absl::Status Compare() const;

 private:
  const ReshardInput& input_;
  std::vector<bool> whole_;
  mutable Mutex mutex_;
  // For each shard, maps the first record of a piece to the end of the piece and its digest.
  std::vector<std::map<uint64_t, std::pair<uint64_t, uint32_t>>> parts_ ABSL_GUARDED_BY(mutex_);
};

// How a shard of the output can be made by copying.
enum class CopyWay { kNone, kRaw, kWhole };

// How pieces become a shard of this compression.
CopyWay WayOf(const ReshardInput& input, const std::vector<Piece>& pieces, Compression compression);

struct CopyOptions {
  bool sync = true;
  std::stop_token stop;
  std::atomic<uint64_t>* records_written = nullptr;  // incremented, unless null
};

// Copies raw pieces to BASE.shard, compares their frames with the indexes, and writes BASE.index.
// The result lacks a schema.
absl::StatusOr<FinishedShard> CopyRaw(const ReshardInput& input, const std::vector<Piece>& pieces,
                                      const std::string& base, const CopyOptions& options,
                                      WholeDigests& digests);
// Copies a whole compressed shard. Its index has been compared with it, and may have been built in
// memory.
absl::StatusOr<FinishedShard> CopyWhole(const ReshardInput& input, size_t shard,
                                        const std::string& base, const CopyOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_RESHARD_RESHARD_PIECES_H_
