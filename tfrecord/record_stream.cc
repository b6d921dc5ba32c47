#include "tfrecord/record_stream.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "tfrecord/mds_frames.h"
#include "tfrecord/tar_frames.h"
#include "tfrecord/tar_header.h"

namespace shardfeed {
namespace {

// The most bytes of the records of several chunks of an ArrayRecord shard that are a block.
constexpr uint64_t kDecodedBlockBytes = 4 << 20;

std::atomic<uint64_t> max_record_bytes = kDefaultMaxRecordBytes;

// Describes the defect of the frame that starts with `bytes`.
std::string Describe(FrameDefect defect, std::string_view bytes, uint64_t frame_bytes) {
  switch (defect) {
    case FrameDefect::kCutHeader:
      return fmt::format("cut header: expected {} bytes, got {}", kHeaderBytes, bytes.size());
    case FrameDefect::kLengthCrc: {
      const uint64_t length = LoadLittleEndian<uint64_t>(bytes.data());
      return fmt::format("length CRC expected {:#010x}, found {:#010x} (length {})",
                         MaskCrc(Crc32cU64(length)), LoadLittleEndian<uint32_t>(bytes.data() + 8),
                         length);
    }
    case FrameDefect::kCutPayload:
      return fmt::format("cut payload: expected {} bytes, got {}", frame_bytes - kFrameBytes,
                         bytes.size() - kHeaderBytes);
    case FrameDefect::kCutFooter:
      return fmt::format("cut footer: {} bytes of the payload's CRC are missing",
                         frame_bytes - bytes.size());
    case FrameDefect::kPayloadCrc: {
      const std::string_view payload = bytes.substr(kHeaderBytes, frame_bytes - kFrameBytes);
      return fmt::format(
          "payload CRC expected {:#010x}, found {:#010x} (length {})", MaskCrc(Crc32c(payload)),
          LoadLittleEndian<uint32_t>(payload.data() + payload.size()), payload.size());
    }
    case FrameDefect::kTar:
    case FrameDefect::kMds:
    case FrameDefect::kArrayRecord:
    case FrameDefect::kNone:
      break;
  }
  return "no defect";
}

}  // namespace

void SetMaxRecordBytes(uint64_t bytes) { max_record_bytes = bytes; }

uint64_t MaxRecordBytes() { return max_record_bytes; }

RecordStream::RecordStream(ByteSource* source, RecordStreamOptions options)
    : source_(source),
      options_(std::move(options)),
      buffer_(Buffer::Allocate(options_.block_bytes)),
      record_(options_.first_record),
      offset_(options_.stream_offset) {}

void RecordStream::Fill(uint64_t frame_bytes) {
  const size_t unread = end_ - begin_;
  // Grow for a frame that does not fit, but by no more than the bytes actually read.
  size_t capacity = std::max(options_.block_bytes, buffer_->size());
  if (buffer_->size() > 2 * options_.block_bytes && frame_bytes <= options_.block_bytes) {
    capacity = options_.block_bytes;  // Release the memory of a huge record that has passed.
  }
  if (frame_bytes > capacity) {
    capacity = std::min<uint64_t>(frame_bytes, std::max(2 * unread, capacity));
  }
  capacity = std::max(capacity, unread + 1);
  // Views of a delivered block may still be in use, so only an unshared buffer is reused.
  if (buffer_.use_count() > 1) {
    std::shared_ptr<Buffer> next = Buffer::Allocate(capacity);
    std::memcpy(next->data(), buffer_->data() + begin_, unread);
    buffer_ = std::move(next);
  } else {
    std::memmove(buffer_->data(), buffer_->data() + begin_, unread);
    buffer_->Resize(capacity);
  }
  begin_ = 0;
  end_ = unread;
  while (end_ < buffer_->size()) {
    absl::StatusOr<size_t> n =
        source_->Read(absl::MakeSpan(buffer_->data() + end_, buffer_->size() - end_));
    if (!n.ok()) {
      // Deliver the records that precede the error first.
      source_error_ = n.status();
      break;
    }
    if (*n == 0) {
      source_ended_ = true;
      break;
    }
    end_ += *n;
  }
}

FrameScan RecordStream::Scan(std::vector<Record>* records) {
  if (options_.framing == Framing::kTfRecord) {
    return ScanFrames(Unread(), offset_, source_ended_, options_.check, SIZE_MAX, records);
  }
  // Nobody else has these bytes: a shared buffer is not filled further.
  const uint64_t archive_end = std::min<uint64_t>(options_.max_frame_bytes, INT64_MAX);
  return ScanTarFrames(absl::MakeSpan(buffer_->data() + begin_, end_ - begin_), offset_,
                       source_ended_, archive_end, SIZE_MAX, records);
}

// Reads what follows the last sample of a tar archive, of which the bytes from `zeros` on must be
// zeros. If they are not, takes back the last one of `records`: a header that was overwritten with
// zeros looks like the end, so the sample before it may lack files.
absl::Status RecordStream::EndTar(size_t zeros, std::vector<Record>* records) {
  const uint64_t end = offset_ + zeros;
  const uint64_t samples_end = offset_;
  uint64_t at = end;
  const auto take_back = [&] {
    if (records->empty()) return;
    offset_ = records->back().offset;
    --record_;
    records->pop_back();
  };
  std::string bytes(Unread().substr(zeros));
  while (true) {
    if (const size_t wrong = bytes.find_first_not_of('\0'); wrong != bytes.npos) {
      take_back();
      const TarDefect defect = DataAfterEnd(end, at + wrong);
      defect_ = FrameDefect::kTar;
      return absl::DataLossError(fmt::format("record {} at byte {}: {} at byte {}", record_,
                                             offset_, defect.what, defect.offset));
    }
    at += bytes.size();
    if (!source_error_.ok()) return source_error_;
    if (source_ended_) break;
    bytes.resize(options_.block_bytes);
    absl::StatusOr<size_t> n = source_->Read(absl::MakeSpan(bytes));
    if (!n.ok()) return n.status();
    source_ended_ = *n == 0;
    bytes.resize(*n);
  }
  if (!options_.indexed_end) return absl::OkStatus();
  const bool any = !records->empty();
  const uint64_t indexed =
      options_.indexed_end(any ? record_ - 1 : record_, any ? records->back().offset : samples_end);
  if (indexed <= samples_end) return absl::OkStatus();
  take_back();
  defect_ = FrameDefect::kTar;
  return absl::DataLossError(fmt::format(
      "record {} at byte {}: the archive ends with zeros from byte {} on, but its index "
      "lists samples up to byte {}",
      record_, offset_, end, indexed));
}

absl::Status RecordStream::Next(RecordBlock* block) {
  block->buffer.reset();
  block->records.clear();
  block->first_record = record_;
  if (options_.framing == Framing::kMds) return NextMds(block);
  if (options_.framing == Framing::kArrayRecord) return NextArrayRecord(block);
  if (tar_end_) return *tar_end_;
  defect_ = FrameDefect::kNone;
  uint64_t wanted = 0;
  while (true) {
    const std::string_view unread = Unread();
    const FrameScan scan = Scan(&block->records);
    skipped_ += scan.skipped;
    begin_ += scan.consumed;
    offset_ += scan.consumed;
    record_ += block->records.size();
    if (scan.ends) {
      skipped_ += scan.skipped_at_end;
      tar_end_ = EndTar(scan.frame_bytes, &block->records);
    }
    if (!block->records.empty()) {
      block->buffer = buffer_;
      return absl::OkStatus();
    }
    if (tar_end_) return *tar_end_;
    FrameDefect defect = scan.defect;
    wanted = scan.frame_bytes;
    if (defect == FrameDefect::kTar) {
      defect_ = defect;
      return absl::DataLossError(
          fmt::format("record {} at byte {}: {}", record_, offset_, scan.detail));
    }
    const bool incomplete = defect == FrameDefect::kNone && wanted > 0;
    const bool tar = options_.framing == Framing::kTar;
    if (incomplete && !tar && wanted > options_.max_frame_bytes) defect = FrameDefect::kCutPayload;
    if (defect != FrameDefect::kNone) {
      defect_ = defect;
      defect_frame_bytes_ = wanted;
      return absl::DataLossError(fmt::format("record {} at byte {}: {}", record_, offset_,
                                             Describe(defect, unread, wanted)));
    }
    // While the header is incomplete, `wanted` is smaller than a frame.
    if (incomplete && wanted > kFrameBytes && wanted - kFrameBytes > options_.max_record_bytes) {
      return absl::ResourceExhaustedError(fmt::format(
          "record {} at byte {}: it has {} bytes, but max_record_bytes allows at most {} for a "
          "compressed record",
          record_, offset_, wanted - kFrameBytes, options_.max_record_bytes));
    }
    if (!source_error_.ok()) return source_error_;
    // No bytes are left, since otherwise the scan would have found a defect.
    if (source_ended_) return absl::OkStatus();
    // A sample tells its size file by file, and each scan begins with its first one.
    if (tar && incomplete) wanted = std::max<uint64_t>(wanted, unread.size() + unread.size() / 2);
    Fill(wanted);
  }
}

// Delivers the samples of an MDS shard, which tell neither where they begin nor where they end: the
// header does.
absl::Status RecordStream::NextMds(RecordBlock* block) {
  const MdsHeader& shard = *options_.mds;
  defect_ = FrameDefect::kNone;
  const auto defect = [&](std::string_view what) {
    defect_ = FrameDefect::kMds;
    defect_frame_bytes_ = shard.SampleBytes(record_);
    return absl::DataLossError(
        fmt::format("record {} at byte {}: {}", record_, shard.offsets[record_], what));
  };
  std::vector<uint64_t> offsets;
  while (record_ < shard.samples()) {
    const uint64_t bytes = shard.SampleBytes(record_);
    if (bytes > end_ - begin_) {
      if (!offsets.empty()) break;
      if (!source_error_.ok()) return source_error_;
      if (source_ended_) return defect("the file ends before it does");
      Fill(bytes);
      continue;
    }
    const std::string wrong = AddMdsSample(*shard.columns, Unread().substr(0, bytes), &payloads_);
    if (!wrong.empty()) {
      if (offsets.empty()) return defect(wrong);
      break;
    }
    offsets.push_back(offset_);
    begin_ += bytes;
    offset_ += bytes + kFrameBytes;
    ++record_;
  }
  if (offsets.empty()) return absl::OkStatus();
  Deliver(offsets, block);
  return absl::OkStatus();
}

// Adds the records of the open chunk from record_ on. Returns what is wrong with it.
std::string RecordStream::AddOpenChunk(const ArrayRecordChunk& chunk,
                                       std::vector<uint64_t>* offsets) {
  char* const decoded = decoded_.Take(chunk.decoded_bytes);
  const std::string wrong = decoder_.Decode(decoded);
  if (!wrong.empty()) return wrong;
  std::string_view rest(decoded, chunk.decoded_bytes);
  for (uint64_t i = 0; i < chunk.records; ++i) {
    const uint64_t size = decoder_.sizes()[i];
    if (chunk.first_record + i >= record_) {
      payloads_.Begin(chunk.FrameBytes(i) - kFrameBytes, options_.array_record->digest)
          ->append(rest.substr(0, size));
      payloads_.End();
      offsets->push_back(offset_);
      offset_ += chunk.FrameBytes(i);
    }
    rest.remove_prefix(size);
  }
  record_ = chunk.end_record();
  decoded_.Shrink();
  return {};
}

// Delivers the records of an ArrayRecord shard, of which the footer tells where its chunks are.
absl::Status RecordStream::NextArrayRecord(RecordBlock* block) {
  const ArrayRecordFooter& footer = *options_.array_record;
  defect_ = FrameDefect::kNone;
  std::vector<uint64_t> offsets;
  while (record_ < footer.records()) {
    const ArrayRecordChunk& chunk = footer.chunks[footer.ChunkOf(record_)];
    const uint64_t bytes = chunk.end - chunk.begin;
    // What little is read may be decompressed to much.
    if (!offsets.empty() && payloads_.bytes() + chunk.decoded_bytes > kDecodedBlockBytes) break;
    std::string wrong;
    if (bytes > end_ - begin_) {
      if (!offsets.empty()) break;
      if (!source_error_.ok()) return source_error_;
      if (!source_ended_) {
        Fill(bytes);
        continue;
      }
      wrong = "the file ends before its chunk does";
    } else {
      wrong = decoder_.Open(chunk, Unread().substr(0, bytes), options_.check);
      // Only now is it known that the chunk has as many bytes as the footer says.
      if (absl::Status status = chunk.CheckSize(MaxRecordBytes()); wrong.empty() && !status.ok()) {
        if (!offsets.empty()) break;
        return status;
      }
      if (wrong.empty()) wrong = AddOpenChunk(chunk, &offsets);
    }
    if (!wrong.empty()) {
      if (!offsets.empty()) break;
      defect_ = FrameDefect::kArrayRecord;
      return absl::DataLossError(
          fmt::format("record {} at byte {}: {}", record_, chunk.begin, wrong));
    }
    begin_ += bytes;
  }
  if (!offsets.empty()) Deliver(offsets, block);
  return absl::OkStatus();
}

void RecordStream::Deliver(const std::vector<uint64_t>& offsets, RecordBlock* block) {
  const std::shared_ptr<Buffer> payloads = Buffer::Allocate(payloads_.bytes());
  payloads_.MoveTo(payloads->data(), [&](size_t i, std::string_view payload) {
    block->records.push_back({payload, offsets[i]});
  });
  block->buffer = payloads;
}

absl::StatusOr<uint64_t> RecordStream::Recover() {
  uint64_t skipped = 0;
  auto skip = [&](size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
    skipped += bytes;
  };
  const FrameDefect defect = defect_;
  defect_ = FrameDefect::kNone;
  if (defect == FrameDefect::kArrayRecord) {
    const ArrayRecordFooter& footer = *options_.array_record;
    const ArrayRecordChunk& chunk = footer.chunks[footer.ChunkOf(record_)];
    begin_ += std::min<uint64_t>(chunk.end - chunk.begin, end_ - begin_);
    for (; record_ < chunk.end_record(); ++record_) {
      offset_ += chunk.FrameBytes(record_ - chunk.first_record);
    }
    return chunk.end - chunk.begin;
  }
  ++record_;
  if (defect == FrameDefect::kPayloadCrc) {
    skip(defect_frame_bytes_);
    return skipped;
  }
  if (defect == FrameDefect::kMds) {
    skip(std::min<size_t>(defect_frame_bytes_, Unread().size()));
    offset_ += defect_frame_bytes_ - skipped + kFrameBytes;
    return defect_frame_bytes_;
  }
  // The length of the damaged record is unknown, so search for the next intact header from its
  // second byte on.
  skip(std::min<size_t>(1, Unread().size()));
  while (true) {
    const size_t at = FindHeader(Unread());
    if (at != std::string_view::npos) {
      skip(at);
      return skipped;
    }
    if (source_ended_) {
      skip(Unread().size());
      return skipped;
    }
    // Keep the bytes that may be the beginning of a header.
    if (Unread().size() >= kHeaderBytes) skip(Unread().size() - (kHeaderBytes - 1));
    if (!source_error_.ok()) return source_error_;
    Fill(0);
  }
}

uint64_t RecordStream::Restart() {
  const uint64_t dropped = end_ - begin_;
  offset_ += dropped;
  begin_ = end_ = 0;
  source_error_ = absl::OkStatus();
  source_ended_ = false;
  return dropped;
}

}  // namespace shardfeed
