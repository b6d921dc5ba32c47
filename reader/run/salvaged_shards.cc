#include "reader/run/salvaged_shards.h"

#include <algorithm>
#include <string>

#include "absl/types/span.h"
#include "base/little_endian.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMostKeptBytes = 64 << 20;

uint64_t BytesOf(const RecordBlock& block) {
  uint64_t bytes = 0;
  for (const Record& record : block.records) bytes += record.payload.size() + kFrameBytes;
  return bytes;
}

// The description of record `number`, which is lost.
std::string WhatIsLost(const std::vector<DamagedPlace>& places, const std::string& path,
                       uint64_t number) {
  const DamagedPlace* last = nullptr;
  for (const DamagedPlace& place : places) {
    if (place.record <= number && place.records != 0) last = &place;
  }
  if (last == nullptr) return "lost in damage";
  std::string_view detail = last->detail;
  const std::string before =
      fmt::format("{}: record {} at byte {}: ", path, last->record, last->offset);
  if (detail.starts_with(before)) detail.remove_prefix(before.size());
  if (last->record == number) return std::string(detail);
  return fmt::format("lost with record {}: {}", last->record, detail);
}

}  // namespace

absl::Status SalvagedShards::Pass(const ShardTable& table, const Extent& extent, CrcCheck check,
                                  Shard* found) {
  SalvageOptions options;
  options.check = check;
  options.compression = extent.index->summary().compression;
  options.records = extent.index->records();
  absl::StatusOr<std::unique_ptr<ShardSalvager>> salvager =
      ShardSalvager::Open(table.path(extent.shard), options);
  if (!salvager.ok()) return salvager.status();
  const ShardIndex& index = *extent.index;
  const bool keeps = extent.compressed();
  if (keeps) kept_ = {.shard = extent.shard, .begin = extent.first_record};
  const uint64_t extent_end = extent.first_record + extent.records;
  uint64_t kept_bytes = 0;
  bool full = !keeps;
  uint64_t next = 0;
  const auto fits = [&](const RecordBlock& block) {
    if (!(*salvager)->numbers_exact() || block.first_record < next ||
        block.first_record + block.records.size() > index.records()) {
      return false;
    }
    uint64_t number = block.first_record;
    return std::all_of(block.records.begin(), block.records.end(), [&](const Record& record) {
      const uint64_t end = record.offset + record.payload.size() + kFrameBytes;
      const uint64_t at = number++;
      return record.offset == index.Offset(at) && end == index.Offset(at + 1);
    });
  };
  found->known = index.records();
  while (true) {
    RecordBlock block;
    absl::Status status = (*salvager)->Next(&block);
    if (!status.ok()) return status;
    if (block.records.empty()) {
      if ((*salvager)->numbers_exact()) break;
      found->known = next;
      break;
    }
    if (!fits(block)) {
      found->known = next;
      break;
    }
    const uint64_t end = block.first_record + block.records.size();
    if (block.first_record > next) found->lost.emplace_back(next, block.first_record);
    next = end;
    if (!full && end > extent.first_record) {
      kept_.end = end;
      kept_bytes += BytesOf(block);
      kept_.blocks.push_back(std::move(block));
      full = end >= extent_end && kept_bytes >= kMostKeptBytes;
    }
  }
  if (next < found->known) found->lost.emplace_back(next, found->known);
  if (!full) kept_.end = found->known;
  found->places = (*salvager)->damage();
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> SalvagedShards::Payload(const ShardTable& table,
                                                         const Extent& extent, uint64_t record,
                                                         CrcCheck check, const Shard& shard,
                                                         BufferRefs* buffers) {
  const auto missing = [&] {
    return absl::AbortedError(fmt::format("{}: record {} changed while it was read; read it again",
                                          table.path(extent.shard), record));
  };
  if (extent.compressed()) {
    if (kept_.shard != extent.shard || record < kept_.begin || record >= kept_.end) {
      Shard again;
      absl::Status status = Pass(table, extent, check, &again);
      if (!status.ok()) return status;
      if (again.lost != shard.lost) return missing();
    }
    for (const RecordBlock& block : kept_.blocks) {
      if (record < block.first_record || record - block.first_record >= block.records.size()) {
        continue;
      }
      // The views of a unit must not keep the memory of this block alive, which may be much larger.
      const std::string_view payload = block.records[record - block.first_record].payload;
      std::shared_ptr<Buffer> buffer = Buffer::Allocate(payload.size());
      std::copy(payload.begin(), payload.end(), buffer->data());
      const std::string_view copy(buffer->data(), payload.size());
      buffers->push_back(std::move(buffer));
      return copy;
    }
    return missing();
  }
  absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(extent.shard);
  if (!file.ok()) return file.status();
  const uint64_t begin = extent.index->Offset(record);
  const uint64_t size = extent.index->Offset(record + 1) - begin;
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(size);
  absl::Status status = (*file)->ReadExactlyAt(begin, absl::MakeSpan(buffer->data(), size));
  if (!status.ok()) return status;
  // The engine has repaired the header.
  const std::string_view payload(buffer->data() + kHeaderBytes, size - kFrameBytes);
  if (check == CrcCheck::kAll &&
      LoadLittleEndian<uint32_t>(payload.data() + payload.size()) != MaskCrc(Crc32c(payload))) {
    return missing();
  }
  buffers->push_back(std::move(buffer));
  return payload;
}

absl::Status SalvagedShards::Salvage(const ShardTable& table, const Extent& extent, CrcCheck check,
                                     size_t first_payload, size_t first_damaged,
                                     std::vector<std::string_view>* payloads, BufferRefs* buffers,
                                     std::vector<DamagedRecord>* damaged) {
  if (const SoundCopy* copy = table.copy(extent.shard)) {
    for (size_t d = first_damaged; d < damaged->size(); ++d) {
      DamagedRecord& record = (*damaged)[d];
      record.what = WhatIsLost(copy->places, record.path, record.shard_record);
    }
    return absl::OkStatus();
  }
  // The records of other shards are where the index says, and nothing can be mended.
  if (extent.framing() != Framing::kTfRecord) return absl::OkStatus();
  MutexLock lock(mutex_);
  auto known = shards_.find(extent.shard);
  if (known == shards_.end()) {
    Shard found;
    absl::Status status = Pass(table, extent, check, &found);
    if (!status.ok()) return status;
    known = shards_.emplace(extent.shard, std::move(found)).first;
  }
  const Shard& shard = known->second;
  size_t left = first_damaged;
  for (size_t d = first_damaged; d < damaged->size(); ++d) {
    DamagedRecord& record = (*damaged)[d];
    const uint64_t number = record.shard_record;
    if (number >= shard.known) {
      if (left != d) (*damaged)[left] = std::move(record);
      ++left;
      continue;
    }
    const auto behind =
        std::upper_bound(shard.lost.begin(), shard.lost.end(), std::pair(number, UINT64_MAX));
    if (behind != shard.lost.begin() && number < std::prev(behind)->second) {
      record.what = WhatIsLost(shard.places, record.path, number);
      if (left != d) (*damaged)[left] = std::move(record);
      ++left;
      continue;
    }
    absl::StatusOr<std::string_view> payload =
        Payload(table, extent, number, check, shard, buffers);
    if (!payload.ok()) return payload.status();
    const uint64_t local = number - extent.first_record;
    const uint64_t at = extent.wanted.empty()
                            ? local
                            : std::lower_bound(extent.wanted.begin(), extent.wanted.end(), local) -
                                  extent.wanted.begin();
    (*payloads)[first_payload + at] = *payload;
  }
  damaged->resize(left);
  return absl::OkStatus();
}

}  // namespace shardfeed
