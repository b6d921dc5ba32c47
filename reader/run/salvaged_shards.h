// What recovery keeps and loses of damaged shards, for readers that skip damage.

#ifndef SHARDFEED_READER_RUN_SALVAGED_SHARDS_H_
#define SHARDFEED_READER_RUN_SALVAGED_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "reader/plan/unit.h"
#include "reader/shards/shard_table.h"
#include "shard/verify/salvage.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// Reads a damaged shard once, and remembers which records are lost. For compressed shards it keeps
// up to 64 MiB of payloads; further damaged extents need another pass. Thread-safe: one thread
// reads a shard while the others wait.
class SalvagedShards {
 public:
  // Recovers the `damaged` records of one extent, numbered from `first_damaged` on, whose empty
  // views are in `payloads` from number `first_payload` on. Recovered records get their payloads
  // and are removed from `damaged`; for the others, it sets what recovery says. Records that
  // recovery cannot number, after damage that no index bridges, are not changed.
  //
  // Errors: those of opening and reading the shard; damage never is one.
  absl::Status Salvage(const ShardTable& table, const Extent& extent, CrcCheck check,
                       size_t first_payload, size_t first_damaged,
                       std::vector<std::string_view>* payloads, BufferRefs* buffers,
                       std::vector<DamagedRecord>* damaged);

 private:
  struct Shard {
    // The numbers of recovery are certain below this one, and its places are those of the index.
    uint64_t known = 0;
    std::vector<DamagedPlace> places;
    std::vector<std::pair<uint64_t, uint64_t>> lost;  // half-open ranges, ascending
  };
  // The intact ones of the records [begin, end) of a compressed shard.
  struct Kept {
    size_t shard = SIZE_MAX;
    uint64_t begin = 0;
    uint64_t end = 0;
    std::vector<RecordBlock> blocks;
  };

  absl::Status Pass(const ShardTable& table, const Extent& extent, CrcCheck check, Shard* found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string_view> Payload(const ShardTable& table, const Extent& extent,
                                           uint64_t record, CrcCheck check, const Shard& shard,
                                           BufferRefs* buffers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<size_t, Shard> shards_ ABSL_GUARDED_BY(mutex_);
  Kept kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RUN_SALVAGED_SHARDS_H_
