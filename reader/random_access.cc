#include <algorithm>
#include <utility>

#include "base/count_text.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "io/engine.h"
#include "io/file.h"
#include "io/parallel.h"
#include "net/remote_engine.h"
#include "reader/plan/unit.h"
#include "reader/shards/shard_table.h"
#include "shard/formats/shard_reader.h"
#include "shardfeed/index.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/framing.h"

namespace shardfeed {

namespace {

// Gaps between requested records that are smaller than this are read too.
constexpr uint64_t kMergeGapBytes = 32 << 10;
constexpr uint64_t kRemoteMergeGapBytes = 1 << 20;
// The number of ranges in flight to a store.
constexpr int kRemoteDepth = 64;

// Where the extent's part of the file goes in a buffer of SizeOf(extent) bytes.
uint64_t PlaceOf(const Extent& extent) { return extent.compressed() ? kInflateRoomBefore : 0; }
uint64_t SizeOf(const Extent& extent) {
  return extent.compressed() ? RoomBytes(extent) : std::max<uint64_t>(extent.file_bytes, 1);
}

// Reads the extent's part of the file. Null: it has none (see Extent::file_bytes).
absl::StatusOr<std::shared_ptr<Buffer>> ReadNow(const ShardTable& table, const Extent& extent,
                                                BufferPool& pool) {
  if (extent.file_bytes == 0) return std::shared_ptr<Buffer>();
  absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(extent.shard);
  if (!file.ok()) return file.status();
  std::shared_ptr<Buffer> buffer = pool.Allocate(SizeOf(extent));
  absl::Status status = (*file)->ReadExactlyAt(
      extent.file_offset, {buffer->data() + PlaceOf(extent), extent.file_bytes});
  if (!status.ok()) return status;
  return buffer;
}

// Reads the parts of all extents.
absl::StatusOr<std::vector<std::shared_ptr<Buffer>>> ReadFromStore(
    const ShardTable& table, const Extents& extents, const std::shared_ptr<BufferPool>& pool) {
  std::vector<std::shared_ptr<Buffer>> buffers(extents.size());
  const std::unique_ptr<Engine> engine = MakeRemoteEngine(kRemoteDepth, pool);
  for (size_t e = 0; e < extents.size(); ++e) {
    const Extent& extent = extents[e];
    if (extent.file_bytes == 0) continue;
    absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(extent.shard);
    if (!file.ok()) return file.status();
    buffers[e] = pool->Allocate(SizeOf(extent));
    const ReadRequest request = {*std::move(file), extent.file_offset, extent.file_bytes, e,
                                 buffers[e],       PlaceOf(extent)};
    engine->Submit({&request, 1});
  }
  std::vector<ReadResult> results;
  engine->Wait(engine->outstanding(), &results);
  if (engine->outstanding() > 0) return absl::CancelledError("interrupted");
  for (const ReadResult& result : results) {
    if (!result.status.ok()) return result.status;
  }
  return buffers;
}

}  // namespace

RandomAccess::RandomAccess(std::shared_ptr<const ShardTable> table) : table_(std::move(table)) {}
RandomAccess::~RandomAccess() = default;

uint64_t RandomAccess::num_records() const { return table_->num_records(); }

absl::StatusOr<std::unique_ptr<RandomAccess>> RandomAccess::Open(const ShardSet& set, int threads) {
  ShardTableOptions options;
  options.threads = threads;
  options.keep_indexes = false;
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = ShardTable::Open(set, options);
  if (!table.ok()) return table.status();
  return std::make_unique<RandomAccess>(*std::move(table));
}

absl::StatusOr<RecordSet> RandomAccess::Get(absl::Span<const uint64_t> numbers, int threads) const {
  std::vector<uint64_t> sorted(numbers.begin(), numbers.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (!sorted.empty() && sorted.back() >= num_records()) {
    return absl::OutOfRangeError(
        fmt::format("record {} does not exist: there {} {}, numbered from 0", sorted.back(),
                    num_records() == 1 ? "is" : "are", CountText(num_records(), "record")));
  }
  // Groups of records of one shard that are near each other.
  Extents extents;
  const uint64_t gap_bytes = table_->remote() ? kRemoteMergeGapBytes : kMergeGapBytes;
  const uint64_t gap = gap_bytes / std::max<uint64_t>(1, table_->mean_bytes());
  for (size_t i = 0, j; i < sorted.size(); i = j) {
    const RecordRange shard = table_->RangeOf(table_->ShardOf(sorted[i]));
    j = i + 1;
    while (j < sorted.size() && sorted[j] - sorted[j - 1] - 1 <= gap &&
           sorted[j] < shard.first + shard.count) {
      ++j;
    }
    const uint64_t count = sorted[j - 1] - sorted[i] + 1;
    absl::Status status = AppendExtents(*table_, sorted[i], count, &extents);
    if (!status.ok()) return status;
    if (count == j - i) continue;
    for (size_t k = i; k < j; ++k) {
      extents.back().wanted.push_back(static_cast<uint32_t>(sorted[k] - sorted[i]));
    }
  }
  struct Part {
    std::vector<std::string_view> payloads;
    BufferRefs buffers;
  };
  std::vector<Part> parts(extents.size());
  const std::shared_ptr<BufferPool> pool = BufferPool::Create(/*max_idle_bytes=*/0);
  std::vector<std::shared_ptr<Buffer>> read;  // from a store, all at once
  if (table_->remote()) {
    absl::StatusOr<std::vector<std::shared_ptr<Buffer>>> all =
        ReadFromStore(*table_, extents, pool);
    if (!all.ok()) return all.status();
    read = *std::move(all);
  }
  absl::Status status = ParallelFor(
      extents.size(), ThreadCount(threads), std::stop_token(), [&](size_t e) -> absl::Status {
        const Extent& extent = extents[e];
        std::shared_ptr<Buffer> buffer;
        if (table_->remote()) {
          buffer = std::move(read[e]);
        } else {
          absl::StatusOr<std::shared_ptr<Buffer>> now = ReadNow(*table_, extent, *pool);
          if (!now.ok()) return now.status();
          buffer = *std::move(now);
        }
        std::vector<DamagedRecord> damaged;
        if (extent.compressed()) {
          uint64_t bytes_read = 0;
          uint64_t let_go = 0;
          absl::Status inflated =
              InflateExtent(*table_, extent, buffer.get(), CrcCheck::kAll, *pool,
                            &parts[e].payloads, &parts[e].buffers, &damaged, &bytes_read, &let_go);
          if (!inflated.ok()) return inflated;
        } else {
          CheckExtent(*table_, extent, {buffer->data(), extent.file_bytes}, CrcCheck::kAll, *pool,
                      &parts[e].payloads, &parts[e].buffers, &damaged);
          if (!extent.decoded()) parts[e].buffers.push_back(std::move(buffer));
        }
        if (!damaged.empty()) return absl::DataLossError(damaged[0].Message());
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  RecordSet set;
  std::vector<std::string_view> by_number;
  by_number.reserve(sorted.size());
  for (Part& part : parts) {
    by_number.insert(by_number.end(), part.payloads.begin(), part.payloads.end());
    for (auto& buffer : part.buffers) set.buffers.push_back(std::move(buffer));
  }
  set.records.reserve(numbers.size());
  for (uint64_t number : numbers) {
    set.records.push_back(
        by_number[std::lower_bound(sorted.begin(), sorted.end(), number) - sorted.begin()]);
  }
  return set;
}

absl::Status RandomAccess::Read(
    uint64_t begin, uint64_t end,
    const std::function<absl::Status(uint64_t number, std::string_view payload)>& consume) const {
  if (begin > end || end > num_records()) {
    return absl::OutOfRangeError(
        fmt::format("records {} to {} do not exist: there {} {}, numbered from 0", begin,
                    end == 0 ? 0 : end - 1, num_records() == 1 ? "is" : "are",
                    CountText(num_records(), "record")));
  }
  while (begin < end) {
    const size_t shard = table_->ShardOf(begin);
    const RecordRange range = table_->RangeOf(shard);
    absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = table_->Index(shard);
    if (!opened.ok()) return opened.status();
    const ShardIndex& index = **opened;
    const uint64_t first = begin - range.first;
    const uint64_t last = std::min(end - range.first, range.count);  // exclusive
    const uint64_t offset = index.Offset(first);
    absl::StatusOr<std::shared_ptr<const File>> file = table_->OpenFile(shard);
    if (!file.ok()) return file.status();
    ShardReaderOptions reading;
    // Read no more than the range needs, within reason.
    reading.block_bytes = std::clamp<uint64_t>(index.Offset(last) - offset, 4 << 10, 1 << 20);
    if (index.summary().framing == Framing::kArrayRecord) {
      reading.array_record =
          std::make_shared<const ArrayRecordFooter>(index.FooterOfChunks(first, last));
    }
    absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::OpenAt(
        *std::move(file), index.summary().format(),
        index.summary().compression == Compression::kNone ? RestartPoint()
                                                          : index.RestartBefore(offset),
        offset, first, reading);
    if (!reader.ok()) return reader.status();
    uint64_t number = first;
    RecordBlock block;
    while (number < last) {
      absl::Status status = (*reader)->Next(&block);
      if (!status.ok()) return status;
      if (block.records.empty()) {
        return absl::DataLossError(
            fmt::format("{}: ends after {}, but its index says {}; rebuild the index with "
                        "'shardfeed index'",
                        table_->path(shard), CountText(number, "record"), index.records()));
      }
      for (const Record& record : block.records) {
        if (number == last) break;
        if (record.offset != index.Offset(number)) {
          return absl::DataLossError(fmt::format(
              "{}: record {} is at byte {}, but its index says {}; rebuild the index with "
              "'shardfeed index'",
              table_->path(shard), number, record.offset, index.Offset(number)));
        }
        status = consume(range.first + number, record.payload);
        if (!status.ok()) return status;
        ++number;
      }
    }
    begin = range.first + last;
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
