#include "reader/unit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "io/buffer.h"
#include "shard/shard_reader.h"
#include "tfrecord/decompress.h"
#include "tfrecord/gzip_members.h"
#include "tfrecord/inflate_between.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {
namespace {

void AddDamaged(const ShardTable& table, const Extent& extent, uint64_t i, std::string_view what,
                std::vector<std::string_view>* payloads, std::vector<DamagedRecord>* damaged) {
  const uint64_t number = extent.first_record + i;
  payloads->emplace_back();
  damaged->push_back({table.begins()[extent.shard] + number, table.path(extent.shard), number,
                      extent.index->Offset(number), std::string(what)});
}

// The defect of `frame`, which should be exactly one record.
FrameDefect CheckFrame(std::string_view frame, CrcCheck check, std::vector<Record>* scratch) {
  scratch->clear();
  const FrameScan scan = ScanFrames(frame, 0, /*at_end=*/true, check, 1, scratch);
  if (scan.defect != FrameDefect::kNone) return scan.defect;
  // An intact frame of another length: the index does not lead to a record here.
  if (scratch->empty() || scan.consumed != frame.size()) return FrameDefect::kLengthCrc;
  return FrameDefect::kNone;
}

// How much more than an extent may be read and inflated before it, because inflating begins at a
// restart point,
constexpr uint64_t kInflateSlack = 1 << 20;
// and after it, up to the end of a deflate block. If that is further away, zlib inflates the rest
// from the previous restart point.
constexpr uint64_t kMostBehind = 256 << 10;
// Larger extents are not inflated at once, because the index may be wrong: record by record,
// inflating takes no more memory than there is content.
constexpr uint64_t kMostAtOnce = 256 << 20;

// The position of a record within its extent.
struct FrameRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};

// The range of the i-th record of an extent; empty if the index is inconsistent.
FrameRange FrameIn(const Extent& extent, uint64_t i) {
  const uint64_t begin = extent.index->Offset(extent.first_record + i) - extent.offset;
  const uint64_t end = extent.index->Offset(extent.first_record + i + 1) - extent.offset;
  if (begin > end || end > extent.bytes) return {};
  return {begin, end - begin};
}

// Whether a member that stores its size starts there.
bool SizedMemberAt(const File& file, const RestartPoint& point) {
  std::array<char, kSizedMemberHeaderBytes> header;
  return point.at_header && file.ReadExactlyAt(point.file_offset, absl::MakeSpan(header)).ok() &&
         SizedMemberBytes({header.data(), header.size()}).has_value();
}

bool InflateSizedMembers(std::string_view members, absl::Span<char> dst) {
  while (!members.empty()) {
    const std::optional<uint64_t> size = SizedMemberBytes(members);
    if (!size || *size > members.size()) return false;
    const absl::StatusOr<size_t> n = InflateMember(members.substr(0, *size), dst);
    if (!n.ok()) return false;
    dst.remove_prefix(*n);
    members.remove_prefix(*size);
  }
  return dst.empty();
}

// Inflates `dst.size()` bytes of content from `point` on with zlib.
bool InflateFrom(std::shared_ptr<const File> file, const IndexSummary& summary,
                 const RestartPoint& point, absl::Span<char> dst, uint64_t* bytes_read) {
  const uint64_t begin = point.file_offset - (point.bits > 0 ? 1 : 0);
  FileSource source(std::move(file), begin, summary.shard_bytes);
  const auto content = MakeDecompressor(summary.compression, &source, point);
  while (!dst.empty()) {
    const absl::StatusOr<size_t> n = content->Read(dst);
    if (!n.ok() || *n == 0) return false;
    dst.remove_prefix(*n);
  }
  *bytes_read += content->file_offset() - begin;
  return true;
}

// The restart point at or before `stream_end` at which to end inflating from `from`.
RestartPoint EndOf(const ShardIndex& index, const RestartPoint& from, uint64_t stream_end) {
  const IndexSummary& summary = index.summary();
  if (stream_end == summary.stream_bytes) {
    // The end of a shard is a point at which another member could start.
    return {.file_offset = summary.shard_bytes, .stream_offset = stream_end};
  }
  const RestartPoint end = index.EndAtOrAfter(stream_end);
  const RestartPoint before = index.RestartBefore(stream_end, /*with_dictionary=*/false);
  const bool in_another_member = before.at_header && before.stream_offset > from.stream_offset;
  return in_another_member || end.stream_offset > stream_end + kMostBehind ? before : end;
}

// Reads and inflates the extent's frames at once: GZIP members that store their size, or the
// content between restart points of other GZIP and ZLIB streams, and from the last restart point on
// the rest. Returns false if that is not possible, or anything is wrong.
bool InflateAtOnce(const std::shared_ptr<const File>& file, const Extent& extent, BufferPool& pool,
                   std::shared_ptr<Buffer>* buffer, std::string_view* frames,
                   uint64_t* bytes_read) {
  const ShardIndex& index = *extent.index;
  const IndexSummary& summary = index.summary();
  if (summary.compression == Compression::kSnappy) return false;
  const uint64_t end = extent.offset + extent.bytes;
  RestartPoint from = index.RestartBefore(extent.offset, /*with_dictionary=*/false);
  const bool sized = summary.compression == Compression::kGzip && SizedMemberAt(*file, from);
  const uint64_t stream_end = sized ? index.RestartAtOrAfter(end) : end;
  RestartPoint to = EndOf(index, from, stream_end);
  // The index is not trusted: its numbers must be possible ones.
  const uint64_t begin = from.file_offset - (from.bits > 0 ? 1 : 0);
  if (extent.offset < from.stream_offset || to.stream_offset <= from.stream_offset ||
      to.file_offset <= begin || to.file_offset > file->size()) {
    return false;
  }
  const uint64_t inflated = to.stream_offset - from.stream_offset;
  const uint64_t deflated = to.file_offset - begin;
  const uint64_t rest = end > to.stream_offset ? end - to.stream_offset : 0;
  constexpr uint64_t kSlack = kInflateSlack + kMostBehind;
  if (extent.bytes > kFrameBytes + MaxRecordBytes() || inflated + rest > kMostAtOnce ||
      inflated + rest > extent.bytes + kSlack || deflated > extent.bytes + kSlack ||
      inflated + rest > (file->size() - begin) * kMaxDeflateRatio) {
    return false;
  }
  if (!from.at_header) from = index.RestartBefore(extent.offset);
  const uint64_t room_bytes = kInflateRoomBefore + deflated + kInflateRoomBehind;
  const std::shared_ptr<Buffer> room = pool.Allocate(room_bytes);
  char* const bytes = room->data() + kInflateRoomBefore;
  if (!file->ReadExactlyAt(begin, {bytes, deflated}).ok()) return false;
  *buffer = pool.Allocate(from.dictionary.size() + inflated + rest);
  char* const content = (*buffer)->data() + from.dictionary.size();
  if (sized) {
    if (!InflateSizedMembers({bytes, deflated}, {content, inflated})) return false;
  } else if (!InflateBetween(summary.compression, from, to,
                             index.BlocksBetween(from.stream_offset, to.stream_offset),
                             {room->data(), room_bytes},
                             {(*buffer)->data(), from.dictionary.size() + inflated})
                  .ok()) {
    return false;
  }
  uint64_t read = deflated;
  if (rest > 0) {
    if (!to.at_header) {
      const uint64_t before =
          std::min<uint64_t>(kDictionaryBytes, from.dictionary.size() + inflated);
      to.dictionary.assign(content + inflated - before, before);
    }
    if (!InflateFrom(file, summary, to, {content + inflated, rest}, &read)) return false;
  }
  *bytes_read += read;
  *frames = {content + (extent.offset - from.stream_offset), extent.bytes};
  return true;
}

}  // namespace

std::string DamagedRecord::Message() const {
  return fmt::format("{}: record {} at byte {}: {}", path, shard_record, offset, what);
}

absl::Status AppendExtents(const ShardTable& table, uint64_t first, uint64_t records,
                           Extents* extents) {
  // Often the shard of the previous extent.
  size_t shard = extents->empty() ? SIZE_MAX : extents->back().shard;
  if (shard == SIZE_MAX || first < table.begins()[shard] || first >= table.begins()[shard + 1]) {
    shard = table.ShardOf(first);
  }
  while (records > 0) {
    const RecordRange range = table.RangeOf(shard);
    const uint64_t begin = first - range.first;
    const uint64_t n = std::min(records, range.count - begin);
    if (n > 0) {
      Extent extent{shard, begin, n};
      if (!extents->empty() && extents->back().shard == shard) {
        extent.index = extents->back().index;
      } else {
        absl::StatusOr<std::shared_ptr<const ShardIndex>> index = table.Index(shard);
        if (!index.ok()) return index.status();
        extent.index = *std::move(index);
      }
      extent.offset = extent.index->Offset(begin);
      const uint64_t end = extent.index->Offset(begin + n);
      if (end < extent.offset || end > extent.index->summary().stream_bytes) {
        return absl::DataLossError(fmt::format(
            "{}: its index is inconsistent at record {}; rebuild it with 'shardfeed index'",
            table.path(shard), begin));
      }
      extent.bytes = end - extent.offset;
      extents->push_back(std::move(extent));
    }
    records -= n;
    first += n;
    ++shard;
  }
  return absl::OkStatus();
}

void CheckExtent(const ShardTable& table, const Extent& extent, std::string_view bytes,
                 CrcCheck check, std::vector<std::string_view>* payloads,
                 std::vector<DamagedRecord>* damaged) {
  thread_local std::vector<Record> records;
  if (extent.wanted.empty()) {
    records.clear();
    const FrameScan scan =
        ScanFrames(bytes, extent.offset, /*at_end=*/true, check, extent.records, &records);
    if (scan.defect == FrameDefect::kNone && scan.consumed == bytes.size() &&
        records.size() == extent.records) {
      for (const Record& record : records) payloads->push_back(record.payload);
      return;
    }
  }
  const uint64_t n = extent.wanted.empty() ? extent.records : extent.wanted.size();
  for (uint64_t w = 0; w < n; ++w) {
    const uint64_t i = extent.wanted.empty() ? w : extent.wanted[w];
    const FrameRange frame = FrameIn(extent, i);
    const FrameDefect defect = CheckFrame(bytes.substr(frame.begin, frame.size), check, &records);
    if (defect == FrameDefect::kNone) {
      payloads->push_back(records[0].payload);
    } else {
      AddDamaged(table, extent, i, FrameDefectName(defect), payloads, damaged);
    }
  }
}

void AllDamaged(const ShardTable& table, const Extent& extent, std::string_view what,
                std::vector<std::string_view>* payloads, std::vector<DamagedRecord>* damaged) {
  const uint64_t n = extent.wanted.empty() ? extent.records : extent.wanted.size();
  for (uint64_t w = 0; w < n; ++w) {
    AddDamaged(table, extent, extent.wanted.empty() ? w : extent.wanted[w], what, payloads,
               damaged);
  }
}

absl::Status InflateExtent(const ShardTable& table, const Extent& extent, CrcCheck check,
                           BufferPool& pool, std::vector<std::string_view>* payloads,
                           BufferRefs* buffers, std::vector<DamagedRecord>* damaged,
                           uint64_t* bytes_read) {
  absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(extent.shard);
  if (!file.ok()) return file.status();
  std::shared_ptr<Buffer> at_once;
  std::string_view frames;
  if (InflateAtOnce(*file, extent, pool, &at_once, &frames, bytes_read)) {
    const size_t payloads_before = payloads->size();
    const size_t damaged_before = damaged->size();
    CheckExtent(table, extent, frames, check, payloads, damaged);
    if (damaged->size() == damaged_before) {
      buffers->push_back(std::move(at_once));
      return absl::OkStatus();
    }
    payloads->resize(payloads_before);
    damaged->resize(damaged_before);
  }
  // Read record by record, which determines where and what the damage is.
  const RestartPoint restart = extent.index->RestartBefore(extent.offset);
  ShardReaderOptions options;
  options.check = check;
  options.block_bytes = std::clamp<uint64_t>(extent.bytes, 4 << 10, 1 << 20);
  uint64_t done = 0;
  std::string what;
  size_t next_wanted = 0;
  // Whether record `done` is wanted.
  const auto wants = [&] {
    if (extent.wanted.empty()) return true;
    if (next_wanted == extent.wanted.size() || extent.wanted[next_wanted] != done) return false;
    ++next_wanted;
    return true;
  };
  const auto add_damaged = [&](std::string_view defect) {
    if (wants()) AddDamaged(table, extent, done, defect, payloads, damaged);
    ++done;
  };
  absl::StatusOr<std::unique_ptr<ShardReader>> reader =
      ShardReader::OpenAt(*std::move(file), extent.index->summary().compression, restart,
                          extent.offset, extent.first_record, options);
  if (!reader.ok()) {
    if (!absl::IsDataLoss(reader.status())) return reader.status();
    what = std::string(reader.status().message());
  }
  RecordBlock block;
  while (reader.ok() && done < extent.records) {
    const absl::Status status = (*reader)->Next(&block);
    if (!status.ok() && !absl::IsDataLoss(status)) return status;
    if (!status.ok() || block.records.empty()) {
      const FrameDefect defect = (*reader)->stream().defect();
      if (!status.ok() && defect == FrameDefect::kPayloadCrc) {
        add_damaged(FrameDefectName(defect));
        if ((*reader)->stream().Recover().ok()) continue;
      }
      what = status.ok() ? "the shard ends before it" : std::string(status.message());
      break;
    }
    bool in_step = true;
    for (const Record& record : block.records) {
      if (done == extent.records) break;
      if (record.offset != extent.index->Offset(extent.first_record + done)) {
        what = fmt::format("it is at byte {}, which is not where its index says", record.offset);
        in_step = false;
        break;
      }
      if (wants()) payloads->push_back(record.payload);
      ++done;
    }
    buffers->push_back(std::move(block.buffer));
    if (!in_step) break;
  }
  if (reader.ok()) *bytes_read += (*reader)->file_position() - restart.file_offset;
  while (done < extent.records) add_damaged(what);
  return absl::OkStatus();
}

}  // namespace shardfeed
