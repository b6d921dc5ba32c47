// A unit that is being read: the results of its reads, and the views made from them.

#ifndef SHARDFEED_READER_RUN_READ_UNIT_H_
#define SHARDFEED_READER_RUN_READ_UNIT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "io/budget.h"
#include "io/buffer.h"
#include "io/engine.h"
#include "reader/plan/read_plan.h"
#include "reader/plan/unit.h"
#include "reader/run/salvaged_shards.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// A reservation of memory in a budget, which is released with it.
struct Reservation {
  Reservation(std::shared_ptr<ByteBudget> from, uint64_t n) : budget(std::move(from)), bytes(n) {}
  ~Reservation() { budget->Release(bytes); }
  // Gives back a part of it.
  void Shrink(uint64_t by) {
    by = std::min(by, bytes);
    bytes -= by;
    if (by > 0) budget->Release(by);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  std::shared_ptr<ByteBudget> budget;
  uint64_t bytes;
};

// What the views of a unit need.
struct Payloads {
  std::optional<Reservation> reservation;
  std::vector<std::string_view> views;
  BufferRefs buffers;
  std::vector<DamagedRecord> damaged;  // damaged records in order
};

// Lives as long as its views are held. Not thread-safe: it belongs to the thread that reads it
// until CheckUnit has returned, and is not changed afterwards.
struct ReadUnit : PlannedUnit {
  std::shared_ptr<Buffer> buffer;  // shared buffer of all extents, if there are many
  uint64_t buffer_used = 0;
  absl::InlinedVector<ReadResult, 1> results;  // one per extent; unused if that has no file_bytes
  // The memory into which compressed extents are read; null: memory of the engine.
  absl::InlinedVector<std::shared_ptr<Buffer>, 1> rooms;
  size_t results_missing = 0;
  Payloads payloads;
  // The views of the payloads, set by CheckUnit.
  const std::string_view* views = nullptr;
  bool any_damaged = false;
};

// Fills the payloads of a unit whose results are complete: one view per record, an empty one for a
// damaged record. Compressed extents are inflated here, into buffers of `pool`. The unit keeps
// neither results nor extents, and of its reservation what it needs.
//
// If records are damaged in bytes that the engine has not verified (ReadResult::unverified), these
// are read again here. `bytes_read` counts what is read here, for that and to inflate.
//
// With options.skip_damaged, damaged records are looked up in `salvaged`, and those that remain
// damaged are not an error. Errors: those of reading, of InflateExtent and of
// SalvagedShards::Salvage.
absl::Status CheckUnit(const ShardTable& table, const ReaderOptions& options, BufferPool& pool,
                       SalvagedShards& salvaged, ReadUnit* unit, uint64_t* bytes_read);

}  // namespace shardfeed

#endif  // SHARDFEED_READER_RUN_READ_UNIT_H_
