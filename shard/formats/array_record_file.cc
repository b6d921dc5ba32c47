#include "shard/formats/array_record_file.h"

#include <algorithm>
#include <string>

#include "absl/types/span.h"
#include "base/count_text.h"
#include "fmt/format.h"
#include "shard/formats/with_path.h"
#include "tfrecord/riegeli_chunk.h"

namespace shardfeed {
namespace {

// Enough for the footer of thousands of chunks.
constexpr uint64_t kFirstReadBytes = 64 << 10;
// A header of a chunk, and the header of a block in it.
constexpr uint64_t kHeadBytes = kRiegeliChunkHeaderBytes + kRiegeliBlockHeaderBytes;

// Reads up to `size` bytes before the last block.
absl::StatusOr<std::string> ReadBeforeLastBlock(const File& file, uint64_t offset, uint64_t size) {
  std::string bytes(std::min(size, file.size() - kRiegeliBlockBytes - offset), '\0');
  if (absl::Status status = file.ReadExactlyAt(offset, absl::MakeSpan(bytes)); !status.ok()) {
    return status;
  }
  return bytes;
}

absl::StatusOr<uint64_t> ReadFooterOffset(const File& file) {
  std::string bytes;
  if (file.size() >= kRiegeliBlockBytes) {
    bytes.resize(kArrayRecordPostscriptBytes);
    absl::Status status =
        file.ReadExactlyAt(file.size() - kRiegeliBlockBytes, absl::MakeSpan(bytes));
    if (!status.ok()) return status;
  }
  absl::StatusOr<uint64_t> offset = ParseArrayRecordPostscript(bytes, file.size());
  if (!offset.ok()) return WithPath(offset.status(), file.path());
  return offset;
}

// The header of the first chunk with records before the footer.
struct FirstChunk {
  std::optional<RiegeliChunkHeader> header;  // nullopt: there is no such chunk, or it is unknown
  uint64_t begin = 0;                        // where that chunk begins
  bool unknown =
      false;  // a header is damaged, which reading the chunk reports, or too many precede
};

// Metadata and padding may precede it.
absl::StatusOr<FirstChunk> ReadFirstChunk(const File& file, uint64_t footer) {
  constexpr int kMostBefore = 4;
  FirstChunk first;
  uint64_t begin = kRiegeliStartBytes;
  for (int i = 0; i <= kMostBefore && begin < footer; ++i) {
    const absl::StatusOr<std::string> bytes = ReadBeforeLastBlock(file, begin, kHeadBytes);
    if (!bytes.ok()) return bytes.status();
    RiegeliChunkHeader header;
    constexpr uint64_t kMostBytes = uint64_t{1} << 60;
    if (!ReadRiegeliHeader(*bytes, begin, CrcCheck::kAll, &header).empty() ||
        header.data_bytes > kMostBytes || header.records > kMostBytes) {
      first.unknown = true;
      return first;
    }
    if (header.records > 0) {
      first.header = header;
      first.begin = begin;
      return first;
    }
    begin = RiegeliChunkEnd(begin, header);
  }
  first.unknown = begin < footer;
  return first;
}

// DataLoss: a chunk with records follows the footer, as where two files are joined. `bytes` are
// those from the footer on, which ends at byte `end`.
absl::Status CheckNothingFollows(const File& file, uint64_t footer, std::string_view bytes,
                                 uint64_t end) {
  constexpr int kMost = 4;  // padding, as a rule
  for (int i = 0; i < kMost && end < file.size() - kRiegeliBlockBytes; ++i) {
    std::string head(bytes.substr(std::min<uint64_t>(end - footer, bytes.size()), kHeadBytes));
    if (head.size() < kHeadBytes) {
      absl::StatusOr<std::string> read = ReadBeforeLastBlock(file, end, kHeadBytes);
      if (!read.ok()) return read.status();
      head = *std::move(read);
    }
    RiegeliChunkHeader header;
    if (!ReadRiegeliHeader(head, end, CrcCheck::kAll, &header).empty()) return absl::OkStatus();
    if (header.records > 0) {
      return absl::DataLossError(
          fmt::format("{}: a chunk of {} records at byte {} follows the footer; are these several "
                      "files in one?",
                      file.path(), header.records, end));
    }
    if (header.data_bytes > file.size()) return absl::OkStatus();
    end = RiegeliChunkEnd(end, header);
  }
  return absl::OkStatus();
}

// Footers of shards whose records have equal sizes and are not compressed are equal: what the first
// chunk has tells them apart.
uint32_t DigestOf(uint32_t footer, const RiegeliChunkHeader& first) {
  return footer ^ static_cast<uint32_t>(first.data_hash >> 32);
}

}  // namespace

bool IsNamedArrayRecord(std::string_view path) {
  constexpr std::string_view kEnding = ".array_record";
  path.remove_prefix(path.rfind('/') + 1);
  const size_t at = path.rfind(kEnding);
  if (at == path.npos) return false;
  const std::string_view behind = path.substr(at + kEnding.size());
  return behind.empty() || behind[0] == '-';
}

absl::StatusOr<ArrayRecordFooter> ReadArrayRecordFooter(const File& file, uint64_t* bytes_read) {
  const absl::StatusOr<uint64_t> offset = ReadFooterOffset(file);
  if (!offset.ok()) return offset.status();
  absl::StatusOr<std::string> bytes = ReadBeforeLastBlock(file, *offset, kFirstReadBytes);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<ArrayRecordFooterHead> head = ParseArrayRecordFooterHead(*bytes, *offset);
  if (!head.ok()) return WithPath(head.status(), file.path());
  if (head->bytes > bytes->size()) {
    bytes = ReadBeforeLastBlock(file, *offset, head->bytes);
    if (!bytes.ok()) return bytes.status();
  }
  absl::StatusOr<ArrayRecordFooter> footer = ParseArrayRecordFooter(*bytes, *offset);
  if (!footer.ok()) return WithPath(footer.status(), file.path());
  const absl::StatusOr<FirstChunk> first = ReadFirstChunk(file, *offset);
  if (!first.ok()) return first.status();
  if (first->header) {
    // Either all chunks of a file are transposed, or none is.
    if (first->header->type == 't') {
      return absl::InvalidArgumentError(
          fmt::format("{}: its chunks are transposed, which cannot be read; write it again with "
                      "transpose:false among the options of ArrayRecordWriter",
                      file.path()));
    }
    if (footer->chunks.empty() || footer->chunks.front().begin != first->begin) {
      return absl::DataLossError(
          fmt::format("{}: the footer lacks the chunk of {} records at byte {}", file.path(),
                      first->header->records, first->begin));
    }
    footer->digest = DigestOf(footer->digest, *first->header);
  }
  if (absl::Status status = CheckNothingFollows(file, *offset, *bytes, *offset + head->bytes);
      !status.ok()) {
    return status;
  }
  if (bytes_read != nullptr) *bytes_read = kArrayRecordPostscriptBytes + bytes->size() + kHeadBytes;
  return footer;
}

absl::StatusOr<std::optional<uint32_t>> ReadArrayRecordDigest(const File& file) {
  const absl::StatusOr<uint64_t> offset = ReadFooterOffset(file);
  if (!offset.ok()) return offset.status();
  const absl::StatusOr<std::string> bytes = ReadBeforeLastBlock(file, *offset, kHeadBytes);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<ArrayRecordFooterHead> head = ParseArrayRecordFooterHead(*bytes, *offset);
  if (!head.ok()) return WithPath(head.status(), file.path());
  const absl::StatusOr<FirstChunk> first = ReadFirstChunk(file, *offset);
  if (!first.ok()) return first.status();
  if (first->header) return DigestOf(head->digest, *first->header);
  if (!first->unknown) return std::nullopt;
  return absl::DataLossError(
      fmt::format("{}: the header of its first chunk with records is not found", file.path()));
}

absl::Status CheckChunkSize(const File& file, const ArrayRecordChunk& chunk, uint64_t max_bytes) {
  const absl::Status too_large = chunk.CheckSize(max_bytes);
  if (too_large.ok()) return too_large;
  const auto wrong = [&](std::string_view what) {
    return absl::DataLossError(fmt::format("{}: record {} at byte {}: {}", file.path(),
                                           chunk.first_record, chunk.begin, what));
  };
  std::string bytes(kHeadBytes, '\0');
  absl::StatusOr<size_t> n = file.ReadAt(chunk.begin, absl::MakeSpan(bytes));
  if (!n.ok()) return n.status();
  bytes.resize(*n);
  RiegeliChunkHeader header;
  if (std::string what = ReadRiegeliHeader(bytes, chunk.begin, CrcCheck::kAll, &header);
      !what.empty()) {
    return wrong(what);
  }
  if (header.records == chunk.records && header.decoded_bytes == chunk.decoded_bytes) {
    return WithPath(too_large, file.path());
  }
  return wrong(fmt::format(
      "its chunk has {} of {} bytes, but the index says {} of {} bytes; the index is damaged, "
      "or the footer that it was made from: rebuild it with 'shardfeed index', and if that does "
      "not "
      "help, save the other records with 'shardfeed repair'",
      CountText(header.records, "record"), header.decoded_bytes, chunk.records,
      chunk.decoded_bytes));
}

}  // namespace shardfeed
