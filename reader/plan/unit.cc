#include "reader/plan/unit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/scratch.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "io/byte_source.h"
#include "shard/formats/array_record_file.h"
#include "shard/formats/shard_reader.h"
#include "tfrecord/array_record_decoder.h"
#include "tfrecord/decompress.h"
#include "tfrecord/framed_payloads.h"
#include "tfrecord/gzip_members.h"
#include "tfrecord/inflate_between.h"
#include "tfrecord/mds_frames.h"
#include "tfrecord/record_stream.h"
#include "tfrecord/tar_frames.h"

namespace shardfeed {
namespace {

void AddDamaged(const ShardTable& table, const Extent& extent, uint64_t i, std::string_view what,
                std::vector<std::string_view>* payloads, std::vector<DamagedRecord>* damaged) {
  const uint64_t number = extent.first_record + i;
  payloads->emplace_back();
  damaged->push_back({table.begins()[extent.shard] + number, table.path(extent.shard), number,
                      extent.index->FileOffset(number), std::string(what)});
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
// restart point: in shards from other tools, these are about 4 MiB apart,
constexpr uint64_t kInflateSlack = 8 << 20;
// and after it, up to the end of a deflate block. If that is further away, zlib inflates the rest
// from the previous restart point.
constexpr uint64_t kMostBehind = 256 << 10;
// Larger extents are not inflated at once, because the index may be wrong: record by record,
// inflating takes no more memory than there is content.
constexpr uint64_t kMostAtOnce = 256 << 20;
constexpr uint64_t kStreamBlockBytes = 1 << 20;

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

// The offset of the first byte of the file that is needed for inflating from `point`.
uint64_t FirstByte(const RestartPoint& point) {
  return point.file_offset - (point.bits > 0 ? 1 : 0);
}

// Where reading can stop if content is inflated from `from` up to `stream_end`: at the end of a
// member, if that is near.
RestartPoint ReadEnd(const ShardIndex& index, const RestartPoint& from, uint64_t stream_end) {
  RestartPoint end = index.EndAtOrAfter(stream_end);
  if (!from.at_header || end.at_header) return end;
  const IndexSummary& summary = index.summary();
  const uint64_t next = index.RestartAtOrAfter(stream_end);
  const RestartPoint whole =
      next < summary.stream_bytes
          ? index.RestartBefore(next, /*with_dictionary=*/false)
          : RestartPoint{.file_offset = summary.shard_bytes, .stream_offset = next};
  return whole.at_header && whole.stream_offset <= end.stream_offset + kMostBehind ? whole : end;
}

// Plans which part of the file is read for an extent of a compressed shard. Plans nothing if the
// index demands more memory than an intact one could, or has too few restart points.
void PlanInflation(Extent* extent) {
  const ShardIndex& index = *extent->index;
  const uint64_t end = extent->offset + extent->bytes;
  const RestartPoint from = index.RestartBefore(extent->offset, /*with_dictionary=*/false);
  const RestartPoint to = ReadEnd(index, from, end);
  const uint64_t begin = FirstByte(from);
  if (extent->offset < from.stream_offset || to.stream_offset < end || to.file_offset <= begin ||
      to.file_offset > index.summary().shard_bytes) {
    return;
  }
  const uint64_t content = to.stream_offset - from.stream_offset;
  const uint64_t deflated = to.file_offset - begin;
  constexpr uint64_t kSlack = kInflateSlack + kMostBehind;
  if (content > extent->bytes + kSlack || deflated > extent->bytes + kSlack ||
      end - from.stream_offset > deflated * kMaxDeflateRatio || extent->bytes > kMostAtOnce ||
      extent->bytes > kFrameBytes + MaxRecordBytes()) {
    return;
  }
  extent->file_offset = begin;
  extent->file_bytes = deflated;
  extent->content_bytes = content;
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

// Inflates `dst.size()` bytes of content from `point` on, as a stream. `bytes` are the bytes of the
// file from FirstByte(point) on.
bool InflateFrom(Compression compression, const RestartPoint& point, absl::Span<const char> bytes,
                 absl::Span<char> dst) {
  MemorySource source(bytes);
  const auto content = MakeDecompressor(compression, &source, point);
  while (!dst.empty()) {
    const absl::StatusOr<size_t> n = content->Read(dst);
    if (!n.ok() || *n == 0) return false;
    dst.remove_prefix(*n);
  }
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

// Keeps the bytes that InflateBetween overwrites: those where deflated data begins and ends.
class KeptEnds {
 public:
  KeptEnds(char* bytes, uint64_t size) : begin_(bytes), end_(bytes + size - 1) {
    first_ = *begin_;
    std::copy_n(end_, last_.size(), last_.data());
  }
  ~KeptEnds() {
    std::copy_n(last_.data(), last_.size(), end_);
    *begin_ = first_;
  }
  KeptEnds(const KeptEnds&) = delete;
  KeptEnds& operator=(const KeptEnds&) = delete;

 private:
  char* const begin_;
  char* const end_;
  char first_;
  std::array<char, 1 + kInflateRoomBehind> last_;
};

// Inflates the extent's frames at once from the bytes in `room`: GZIP members that store their
// size, or the content between restart points of other GZIP and ZLIB streams; from the last restart
// point on, or if anything is wrong, as a stream. Returns false if that fails as well.
bool InflateAtOnce(const Extent& extent, Buffer* room, BufferPool& pool,
                   std::shared_ptr<Buffer>* buffer, absl::Span<char>* frames) {
  const ShardIndex& index = *extent.index;
  const Compression compression = index.summary().compression;
  const uint64_t end = extent.offset + extent.bytes;
  const RestartPoint from = index.RestartBefore(extent.offset);
  const uint64_t begin = FirstByte(from);
  char* const bytes = room->data() + kInflateRoomBefore;
  const absl::Span<const char> part(bytes, extent.file_bytes);
  const bool sized = compression == Compression::kGzip && from.at_header &&
                     part.size() >= kSizedMemberHeaderBytes &&
                     SizedMemberBytes({bytes, kSizedMemberHeaderBytes}).has_value();
  RestartPoint to = EndOf(index, from, sized ? index.RestartAtOrAfter(end) : end);
  // The index is not trusted: its numbers must be possible ones.
  const bool between = compression != Compression::kSnappy &&
                       to.stream_offset > from.stream_offset && to.file_offset > begin &&
                       to.file_offset - begin <= part.size() &&
                       to.stream_offset - from.stream_offset <= extent.content_bytes;
  const uint64_t wanted = end - from.stream_offset;
  uint64_t inflated = between ? to.stream_offset - from.stream_offset : 0;
  const size_t before = from.dictionary.size();
  *buffer = pool.Allocate(before + std::max(wanted, inflated));
  char* const content = (*buffer)->data() + before;
  if (between) {
    const uint64_t deflated = to.file_offset - begin;
    const KeptEnds kept(bytes, deflated);
    const bool done =
        sized ? InflateSizedMembers({bytes, deflated}, {content, inflated})
              : InflateBetween(compression, from, to,
                               index.BlocksBetween(from.stream_offset, to.stream_offset),
                               {room->data(), kInflateRoomBefore + deflated + kInflateRoomBehind},
                               {(*buffer)->data(), before + inflated})
                    .ok();
    if (!done) inflated = 0;
  }
  if (inflated == 0) to = from;
  if (wanted > inflated) {
    if (inflated > 0 && !to.at_header) {
      const uint64_t n = std::min<uint64_t>(kDictionaryBytes, before + inflated);
      to.dictionary.assign(content + inflated - n, n);
    }
    if (!InflateFrom(compression, to, part.subspan(FirstByte(to) - begin),
                     {content + inflated, wanted - inflated})) {
      return false;
    }
  }
  *frames = {content + (extent.offset - from.stream_offset), extent.bytes};
  return true;
}

// Where the payloads are but a small part of what was inflated, it is let go.
std::shared_ptr<Buffer> WithoutTheRest(std::shared_ptr<Buffer> buffer, BufferPool& pool,
                                       absl::Span<std::string_view> payloads) {
  uint64_t bytes = 0;
  for (std::string_view payload : payloads) bytes += payload.size();
  if (bytes > buffer->size() / 2) return buffer;
  std::shared_ptr<Buffer> copy = pool.Allocate(std::max<uint64_t>(bytes, 1));
  char* at = copy->data();
  for (std::string_view& payload : payloads) {
    std::copy(payload.begin(), payload.end(), at);
    payload = {at, payload.size()};
    at += payload.size();
  }
  return copy;
}

// ResourceExhausted: one of the chunks that are read has too many bytes when it is decompressed.
// DataLoss: the index says so, but it has not.
absl::Status CheckChunkSizes(const ShardTable& table, const Extent& extent) {
  const uint64_t most = MaxRecordBytes();
  if (extent.content_bytes <= most) return absl::OkStatus();
  const uint64_t end = extent.first_record + extent.records;
  for (uint64_t record = extent.first_record; record < end;) {
    const ArrayRecordChunk chunk = extent.index->ChunkOf(record);
    if (!chunk.CheckSize(most).ok()) {
      const absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(extent.shard);
      return file.ok() ? CheckChunkSize(**file, chunk, most) : file.status();
    }
    record = chunk.end_record();
  }
  return absl::OkStatus();
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
      if (extent.compressed()) {
        PlanInflation(&extent);
      } else {
        extent.file_offset = extent.index->FileOffset(begin);
        extent.file_bytes = extent.index->FileEnd(begin + n - 1) - extent.file_offset;
        if (extent.framing() == Framing::kArrayRecord) {
          extent.content_bytes =
              extent.index->Offset(extent.index->ChunkOf(begin + n - 1).end_record()) -
              extent.index->Offset(extent.index->ChunkOf(begin).first_record);
          absl::Status status = CheckChunkSizes(table, extent);
          if (!status.ok()) return status;
        }
      }
      extents->push_back(std::move(extent));
    }
    records -= n;
    first += n;
    ++shard;
  }
  return absl::OkStatus();
}

namespace {

void CheckTarExtent(const ShardTable& table, const Extent& extent, absl::Span<char> bytes,
                    std::vector<std::string_view>* payloads, std::vector<DamagedRecord>* damaged) {
  const uint64_t n = extent.wanted.empty() ? extent.records : extent.wanted.size();
  for (uint64_t w = 0; w < n; ++w) {
    const uint64_t i = extent.wanted.empty() ? w : extent.wanted[w];
    const FrameRange frame = FrameIn(extent, i);
    std::string_view payload;
    const std::string wrong =
        ReadTarFrame(bytes.subspan(frame.begin, frame.size), extent.offset + frame.begin, &payload);
    if (wrong.empty()) {
      payloads->push_back(payload);
    } else {
      AddDamaged(table, extent, i, wrong, payloads, damaged);
    }
  }
}

void CheckMdsExtent(const ShardTable& table, const Extent& extent, std::string_view bytes,
                    BufferPool& pool, std::vector<std::string_view>* payloads, BufferRefs* buffers,
                    std::vector<DamagedRecord>* damaged) {
  thread_local FramedPayloads made;
  thread_local std::vector<size_t> places;  // places of the made payloads among all payloads
  places.clear();
  const uint64_t n = extent.wanted.empty() ? extent.records : extent.wanted.size();
  for (uint64_t w = 0; w < n; ++w) {
    const uint64_t i = extent.wanted.empty() ? w : extent.wanted[w];
    const FrameRange frame = FrameIn(extent, i);
    // In the file, samples have no framing.
    const std::string_view sample =
        bytes.substr(frame.begin - i * kFrameBytes, frame.size - kFrameBytes);
    const std::string wrong = AddMdsSample(*extent.index->mds_columns(), sample, &made);
    if (wrong.empty()) {
      places.push_back(payloads->size());
      payloads->emplace_back();
    } else {
      AddDamaged(table, extent, i, wrong, payloads, damaged);
    }
  }
  if (places.empty()) return;
  std::shared_ptr<Buffer> buffer = pool.Allocate(made.bytes());
  made.MoveTo(buffer->data(),
              [&](size_t i, std::string_view payload) { (*payloads)[places[i]] = payload; });
  buffers->push_back(std::move(buffer));
}

// Memory for payloads, which is taken in pieces that are bounded whatever the index says.
class PayloadMemory {
 public:
  // Allocates no more than `bytes` bytes, unless one payload needs more.
  PayloadMemory(BufferPool& pool, uint64_t bytes, BufferRefs* buffers)
      : pool_(pool), left_(bytes), buffers_(buffers) {}

  char* Take(uint64_t bytes) {
    left_ -= std::min(left_, bytes);
    // Large payloads get memory of their own, so that little of a piece is wasted.
    if (bytes >= kOwnBytes) return Allocate(bytes);
    if (bytes > room_ || begin_ == nullptr) {
      room_ = std::max(bytes, std::min(bytes + left_, kPieceBytes));
      begin_ = Allocate(room_);
    }
    char* const taken = begin_;
    begin_ += bytes;
    room_ -= bytes;
    return taken;
  }

 private:
  static constexpr uint64_t kPieceBytes = 1 << 20;
  static constexpr uint64_t kOwnBytes = 64 << 10;

  char* Allocate(uint64_t bytes) {
    std::shared_ptr<Buffer> buffer = pool_.Allocate(std::max<uint64_t>(bytes, 1));
    char* const begin = buffer->data();
    buffers_->push_back(std::move(buffer));
    return begin;
  }

  BufferPool& pool_;
  uint64_t left_;
  BufferRefs* buffers_;
  char* begin_ = nullptr;
  uint64_t room_ = 0;
};

// Decodes each chunk once. If only some of its records are needed, they are copied.
void CheckArrayRecordExtent(const ShardTable& table, const Extent& extent, std::string_view bytes,
                            CrcCheck check, BufferPool& pool,
                            std::vector<std::string_view>* payloads, BufferRefs* buffers,
                            std::vector<DamagedRecord>* damaged) {
  thread_local ArrayRecordDecoder decoder;
  thread_local Scratch scratch;
  const uint64_t n = extent.wanted.empty() ? extent.records : extent.wanted.size();
  const auto record_at = [&](uint64_t w) {
    return extent.first_record + (extent.wanted.empty() ? w : extent.wanted[w]);
  };
  // About what all of them take: the index has the mean sizes of the records of a chunk.
  PayloadMemory memory(pool, n * (extent.bytes / extent.records), buffers);
  for (uint64_t w = 0; w < n;) {
    const ArrayRecordChunk chunk = extent.index->ChunkOf(record_at(w));
    const uint64_t first = w;
    while (w < n && record_at(w) < chunk.end_record()) ++w;
    std::string wrong = decoder.Open(
        chunk, bytes.substr(chunk.begin - extent.file_offset, chunk.end - chunk.begin), check);
    const bool whole = w - first == chunk.records;
    char* decoded = nullptr;
    if (wrong.empty()) {
      decoded = whole ? memory.Take(chunk.decoded_bytes) : scratch.Take(chunk.decoded_bytes);
      wrong = decoder.Decode(decoded);
    }
    uint64_t record = chunk.first_record;
    for (uint64_t i = first; i < w; ++i) {
      if (!wrong.empty()) {
        AddDamaged(table, extent, record_at(i) - extent.first_record, wrong, payloads, damaged);
        continue;
      }
      for (; record < record_at(i); ++record) {
        decoded += decoder.sizes()[record - chunk.first_record];
      }
      const uint64_t size = decoder.sizes()[record - chunk.first_record];
      char* const payload = whole ? decoded : memory.Take(size);
      if (!whole) std::copy_n(decoded, size, payload);
      payloads->emplace_back(payload, size);
    }
  }
  scratch.Shrink();
}

}  // namespace

uint64_t DecodedMemory(const Extent& extent) {
  if (extent.framing() == Framing::kArrayRecord) {
    // Chunks of which some records are needed are decoded in other memory than that in which those
    // are kept, as are chunks that block headers interrupt.
    const bool whole = extent.wanted.empty() && extent.content_bytes == extent.bytes;
    return (whole ? 1 : 2) * extent.content_bytes + extent.file_bytes;
  }
  const uint64_t payloads =
      extent.index->mds_columns()->MaxExampleBytes(extent.records, extent.file_bytes) +
      extent.records * kFrameBytes;
  // They are made in other memory than that in which they are kept.
  return 2 * payloads;
}

void CheckExtent(const ShardTable& table, const Extent& extent, absl::Span<char> frames,
                 CrcCheck check, BufferPool& pool, std::vector<std::string_view>* payloads,
                 BufferRefs* buffers, std::vector<DamagedRecord>* damaged) {
  if (extent.framing() == Framing::kMds) {
    return CheckMdsExtent(table, extent, {frames.data(), frames.size()}, pool, payloads, buffers,
                          damaged);
  }
  if (extent.framing() == Framing::kArrayRecord) {
    return CheckArrayRecordExtent(table, extent, {frames.data(), frames.size()}, check, pool,
                                  payloads, buffers, damaged);
  }
  if (extent.tar()) return CheckTarExtent(table, extent, frames, payloads, damaged);
  const std::string_view bytes(frames.data(), frames.size());
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

uint64_t RoomBytes(const Extent& extent) {
  return kInflateRoomBefore + extent.file_bytes + kInflateRoomBehind;
}

uint64_t InflationMemory(const Extent& extent) {
  // As a stream, in blocks.
  if (extent.file_bytes == 0) return extent.bytes + kStreamBlockBytes;
  return kDictionaryBytes + std::max(extent.content_bytes, extent.bytes);
}

absl::Status InflateExtent(const ShardTable& table, const Extent& extent, Buffer* room,
                           CrcCheck check, BufferPool& pool,
                           std::vector<std::string_view>* payloads, BufferRefs* buffers,
                           std::vector<DamagedRecord>* damaged, uint64_t* bytes_read,
                           uint64_t* let_go) {
  std::shared_ptr<Buffer> at_once;
  absl::Span<char> frames;
  if (room != nullptr && InflateAtOnce(extent, room, pool, &at_once, &frames)) {
    const size_t payloads_before = payloads->size();
    const size_t damaged_before = damaged->size();
    CheckExtent(table, extent, frames, check, pool, payloads, buffers, damaged);
    // What is wrong with a sample is known already, and no other one is affected.
    if (damaged->size() == damaged_before || extent.tar()) {
      at_once = WithoutTheRest(std::move(at_once), pool,
                               absl::MakeSpan(*payloads).subspan(payloads_before));
      const uint64_t planned = InflationMemory(extent);
      *let_go += planned - std::min<uint64_t>(planned, at_once->size());
      buffers->push_back(std::move(at_once));
      return absl::OkStatus();
    }
    payloads->resize(payloads_before);
    damaged->resize(damaged_before);
  }
  absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(extent.shard);
  if (!file.ok()) return file.status();
  // Read record by record, which determines where and what the damage is.
  const RestartPoint restart = extent.index->RestartBefore(extent.offset);
  ShardReaderOptions options;
  options.check = check;
  options.block_bytes = std::clamp<uint64_t>(extent.bytes, 4 << 10, kStreamBlockBytes);
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
      ShardReader::OpenAt(*std::move(file), extent.index->summary().format(), restart,
                          extent.offset, extent.first_record, options);
  if (!reader.ok()) {
    if (!absl::IsDataLoss(reader.status())) return reader.status();
    what = std::string(reader.status().message());
  }
  RecordBlock block;
  while (reader.ok() && done < extent.records) {
    absl::Status status = (*reader)->Next(&block);
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
