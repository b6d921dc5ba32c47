#include "reader/read_unit.h"

#include <string>

namespace shardfeed {

absl::Status CheckUnit(const ShardTable& table, const ReaderOptions& options, BufferPool& pool,
                       SalvagedShards& salvaged, ReadUnit* unit, uint64_t* bytes_read) {
  Payloads& payloads = *unit->payloads;
  payloads.views.reserve(unit->records());
  absl::Status status = absl::OkStatus();
  for (size_t i = 0; i < unit->extents.size() && status.ok(); ++i) {
    const Extent& extent = unit->extents[i];
    const size_t views_before = payloads.views.size();
    const size_t damaged_before = payloads.damaged.size();
    if (extent.compressed()) {
      status = InflateExtent(table, extent, options.check, pool, &payloads.views, &payloads.buffers,
                             &payloads.damaged, bytes_read);
    } else {
      ReadResult& result = unit->results[i];
      if (result.status.ok()) {
        CheckExtent(table, extent, result.data, options.check, &payloads.views, &payloads.damaged);
        if (result.buffer != unit->buffer) payloads.buffers.push_back(std::move(result.buffer));
      } else if (options.damage.skip && absl::IsDataLoss(result.status)) {
        // The shard was truncated after it was opened.
        AllDamaged(table, extent, std::string(result.status.message()), &payloads.views,
                   &payloads.damaged);
      } else {
        status = result.status;
      }
    }
    if (status.ok() && options.damage.skip && payloads.damaged.size() > damaged_before) {
      status = salvaged.Salvage(table, extent, options.check, views_before, damaged_before,
                                &payloads.views, &payloads.buffers, &payloads.damaged);
    }
  }
  if (unit->buffer != nullptr) payloads.buffers.push_back(std::move(unit->buffer));
  unit->results = {};
  unit->extents = {};
  unit->views = payloads.views.data();
  unit->any_damaged = !payloads.damaged.empty();
  return status;
}

}  // namespace shardfeed
