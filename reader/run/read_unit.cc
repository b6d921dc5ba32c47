#include "reader/run/read_unit.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shardfeed {
namespace {

// The bytes of a compressed extent, in memory in which they may be inflated: that into which they
// were read, unless the engine has read them elsewhere.
std::shared_ptr<Buffer> InRoom(const Extent& extent, const ReadResult& result,
                               std::shared_ptr<Buffer> room, BufferPool& pool) {
  if (room == nullptr) room = pool.Allocate(RoomBytes(extent));
  char* const bytes = room->data() + kInflateRoomBefore;
  if (result.data.data() != bytes) std::copy(result.data.begin(), result.data.end(), bytes);
  return room;
}

// The bytes of a raw extent. Those of a tar shard, which CheckExtent overwrites, are copied to
// memory of its own where they are mapped.
absl::Span<char> FramesOf(const Extent& extent, BufferPool& pool, ReadResult* result) {
  if (extent.tar() && result->mapped) {
    std::shared_ptr<Buffer> copy = pool.Allocate(std::max<uint64_t>(extent.file_bytes, 1));
    std::copy(result->data.begin(), result->data.end(), copy->data());
    result->data = {copy->data(), extent.file_bytes};
    result->buffer = std::move(copy);
    result->mapped = false;
  }
  return {const_cast<char*>(result->data.data()), result->data.size()};
}

// Reads a raw extent again, into memory of its own. A cache on disk compares it with its checksums
// and removes what is damaged, which then comes from the store.
absl::Status ReadVerified(const ShardTable& table, const Extent& extent, BufferPool& pool,
                          ReadResult* result) {
  absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(extent.shard);
  if (!file.ok()) return file.status();
  const std::shared_ptr<Buffer> buffer = pool.Allocate(std::max<uint64_t>(extent.file_bytes, 1));
  absl::Status status =
      (*file)->ReadExactlyAt(extent.file_offset, {buffer->data(), extent.file_bytes});
  *result = ReadResult();
  result->data = {buffer->data(), extent.file_bytes};
  result->buffer = buffer;
  return status;
}

}  // namespace

absl::Status CheckUnit(const ShardTable& table, const ReaderOptions& options, BufferPool& pool,
                       SalvagedShards& salvaged, ReadUnit* unit, uint64_t* bytes_read) {
  Payloads& payloads = unit->payloads;
  payloads.views.reserve(unit->records());
  absl::Status status = absl::OkStatus();
  uint64_t let_go = 0;
  const bool all_decoded = std::all_of(unit->extents.begin(), unit->extents.end(),
                                       [](const Extent& extent) { return extent.decoded(); });
  for (size_t i = 0; i < unit->extents.size() && status.ok(); ++i) {
    const Extent& extent = unit->extents[i];
    const size_t views_before = payloads.views.size();
    const size_t damaged_before = payloads.damaged.size();
    const bool was_read = extent.file_bytes > 0 || !extent.compressed();
    ReadResult result;
    if (was_read) result = std::move(unit->results[i]);
    if (!result.status.ok()) {
      if (options.skip_damaged && absl::IsDataLoss(result.status)) {
        // The shard was cut after it was opened.
        AllDamaged(table, extent, std::string(result.status.message()), &payloads.views,
                   &payloads.damaged);
      } else {
        status = result.status;
      }
    } else if (extent.compressed()) {
      const std::shared_ptr<Buffer> room =
          was_read ? InRoom(extent, result, std::move(unit->rooms[i]), pool) : nullptr;
      result = ReadResult();
      if (was_read) let_go += RoomBytes(extent);
      status = InflateExtent(table, extent, room.get(), options.check_crc, pool, &payloads.views,
                             &payloads.buffers, &payloads.damaged, bytes_read, &let_go);
    } else {
      CheckExtent(table, extent, FramesOf(extent, pool, &result), options.check_crc, pool,
                  &payloads.views, &payloads.buffers, &payloads.damaged);
      if (result.unverified && payloads.damaged.size() > damaged_before) {
        // Perhaps only what the cache on disk has of it is damaged.
        payloads.views.resize(views_before);
        payloads.damaged.resize(damaged_before);
        status = ReadVerified(table, extent, pool, &result);
        *bytes_read += extent.file_bytes;
        if (status.ok()) {
          CheckExtent(table, extent, FramesOf(extent, pool, &result), options.check_crc, pool,
                      &payloads.views, &payloads.buffers, &payloads.damaged);
        }
      }
      if (extent.decoded()) {
        // The bytes of the file are not needed any more.
        uint64_t decoded_bytes = 0;
        for (size_t view = views_before; view < payloads.views.size(); ++view) {
          decoded_bytes += payloads.views[view].size() + kFrameBytes;
        }
        let_go += DecodedMemory(extent) - std::min(DecodedMemory(extent), decoded_bytes);
        if (all_decoded || result.buffer != unit->buffer) let_go += extent.file_bytes;
      } else if (result.buffer != unit->buffer) {
        payloads.buffers.push_back(std::move(result.buffer));
      }
    }
    if (status.ok() && options.skip_damaged && payloads.damaged.size() > damaged_before) {
      status = salvaged.Salvage(table, extent, options.check_crc, views_before, damaged_before,
                                &payloads.views, &payloads.buffers, &payloads.damaged);
    }
  }
  if (unit->buffer != nullptr && !all_decoded) payloads.buffers.push_back(std::move(unit->buffer));
  unit->buffer = nullptr;
  unit->results = {};
  unit->rooms = {};
  unit->extents = {};
  unit->views = payloads.views.data();
  unit->any_damaged = !payloads.damaged.empty();
  if (payloads.reservation) payloads.reservation->Shrink(let_go);
  return status;
}

}  // namespace shardfeed
