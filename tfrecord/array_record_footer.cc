#include "tfrecord/array_record_footer.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "fmt/format.h"
#include "tfrecord/framing.h"
#include "tfrecord/riegeli_chunk.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

constexpr uint64_t kVersion = 1;
// Upper bound of the decoded footer, besides what the chunks need: its metadata.
constexpr uint64_t kMaxMetadataBytes = 64 << 10;
// Upper bound of offsets and sums of sizes: far from overflow, and far above any file.
constexpr uint64_t kMaxBytes = uint64_t{1} << 60;

constexpr char kCutOff[] =
    "the file was cut off, or Riegeli wrote it without ArrayRecord's footer; write it again with "
    "ArrayRecordWriter";

// Sets the varint fields 1, 2 and 3 of a message, as far as it has them. Returns false if it is not
// a message.
bool ReadNumbers(std::string_view message, uint64_t numbers[3]) {
  WireFields fields(message, 0);
  while (fields.Next()) {
    if (fields.field() > 3 || !fields.Is(fields.field(), WireType::kVarint)) continue;
    const std::string_view bytes = fields.bytes();
    numbers[fields.field() - 1] = ReadVarint(bytes.data(), bytes.data() + bytes.size()).value;
  }
  return fields.failed() == nullptr;
}

// Decodes a simple chunk to its records.
std::string ReadRecords(std::string_view bytes, uint64_t begin, uint64_t max_bytes,
                        std::string* decoded, std::vector<std::string_view>* records) {
  RiegeliChunkHeader header;
  std::string scratch;
  std::string_view data;
  std::string wrong = ReadRiegeliChunk(bytes, begin, CrcCheck::kAll, &scratch, &header, &data);
  SimpleChunk chunk;
  if (wrong.empty()) wrong = ParseSimpleChunk(header, data, &chunk);
  if (wrong.empty() && chunk.decoded_bytes > max_bytes) {
    wrong = fmt::format("it has {} bytes, more than the {} that it can need", chunk.decoded_bytes,
                        max_bytes);
  }
  if (!wrong.empty()) return wrong;
  decoded->resize(chunk.decoded_bytes);
  wrong = DecodeSimpleChunk(chunk, decoded->data());
  if (!wrong.empty()) return wrong;
  std::string_view rest = *decoded;
  for (const uint64_t size : chunk.sizes) {
    records->push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return {};
}

}  // namespace

uint64_t ArrayRecordChunk::FrameBytes(uint64_t i) const {
  return decoded_bytes / records + (i < decoded_bytes % records ? 1 : 0) + kFrameBytes;
}

absl::Status ArrayRecordChunk::CheckSize(uint64_t max_bytes) const {
  if (decoded_bytes <= max_bytes || decoded_bytes <= end - begin) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("record {} at byte {}: its chunk has {} bytes of records, but max_record_bytes "
                  "allows at most {} if they are compressed",
                  first_record, begin, decoded_bytes, max_bytes));
}

size_t ArrayRecordFooter::ChunkOf(uint64_t record) const {
  const auto behind =
      std::upper_bound(chunks.begin(), chunks.end(), record,
                       [](uint64_t r, const ArrayRecordChunk& c) { return r < c.first_record; });
  return behind - chunks.begin() - 1;
}

absl::StatusOr<uint64_t> ParseArrayRecordPostscript(std::string_view bytes, uint64_t file_bytes) {
  if (file_bytes < 2 * kRiegeliBlockBytes || file_bytes % kRiegeliBlockBytes != 0 ||
      file_bytes > kMaxBytes) {
    return absl::DataLossError(
        fmt::format("the file has {} bytes, but ArrayRecord files have a multiple of {}, and at "
                    "least twice that; {}",
                    file_bytes, kRiegeliBlockBytes, kCutOff));
  }
  const uint64_t begin = file_bytes - kRiegeliBlockBytes;
  std::string decoded;
  std::vector<std::string_view> records;
  const std::string wrong =
      ReadRecords(bytes, begin, kArrayRecordPostscriptBytes, &decoded, &records);
  if (!wrong.empty()) {
    return absl::DataLossError(
        fmt::format("no postscript at byte {}: {}; {}", begin, wrong, kCutOff));
  }
  uint64_t numbers[3] = {};
  if (records.empty() || !ReadNumbers(records[0], numbers) || numbers[1] != kArrayRecordMagic) {
    return absl::DataLossError(fmt::format(
        "no postscript at byte {}: it lacks the magic number of ArrayRecord; {}", begin, kCutOff));
  }
  const uint64_t offset = numbers[0];
  if (offset < kRiegeliStartBytes || offset >= begin || !CanBeginChunk(offset)) {
    return absl::DataLossError(fmt::format(
        "the postscript at byte {} says that the footer begins at byte {}, which is not between "
        "the first chunk and the postscript",
        begin, offset));
  }
  return offset;
}

absl::StatusOr<ArrayRecordFooterHead> ParseArrayRecordFooterHead(std::string_view bytes,
                                                                 uint64_t offset) {
  RiegeliChunkHeader header;
  const std::string wrong = ReadRiegeliHeader(bytes, offset, CrcCheck::kAll, &header);
  if (!wrong.empty()) {
    return absl::DataLossError(fmt::format("the footer at byte {}: {}", offset, wrong));
  }
  if (header.data_bytes > kMaxBytes || header.records > kMaxBytes) {
    return absl::DataLossError(
        fmt::format("the footer at byte {}: it has {} bytes of data", offset, header.data_bytes));
  }
  return ArrayRecordFooterHead{static_cast<uint32_t>(header.data_hash),
                               RiegeliChunkEnd(offset, header) - offset};
}

absl::StatusOr<ArrayRecordFooter> ParseArrayRecordFooter(std::string_view bytes, uint64_t offset) {
  const absl::StatusOr<ArrayRecordFooterHead> head = ParseArrayRecordFooterHead(bytes, offset);
  if (!head.ok()) return head.status();
  const auto wrong_footer = [&](std::string_view what) {
    return absl::DataLossError(fmt::format("the footer at byte {}: {}", offset, what));
  };
  const auto cannot_be = [&](const ArrayRecordChunk& chunk) {
    return wrong_footer(
        fmt::format("the chunk at byte {} has {} records of {} bytes, which cannot be", chunk.begin,
                    chunk.records, chunk.decoded_bytes));
  };
  std::string decoded;
  std::vector<std::string_view> records;
  // A chunk has more bytes than its entry in the footer.
  const std::string wrong =
      ReadRecords(bytes, offset, offset + kMaxMetadataBytes, &decoded, &records);
  if (!wrong.empty()) return wrong_footer(wrong);
  uint64_t metadata[3] = {};
  bool sound = !records.empty();
  if (sound) {
    WireFields fields(records[0], 0);
    sound =
        fields.Next() && fields.Is(1, WireType::kBytes) && ReadNumbers(fields.bytes(), metadata);
  }
  if (!sound) return wrong_footer("it does not begin with the metadata of ArrayRecord");
  if (metadata[0] != kVersion) {
    return absl::InvalidArgumentError(fmt::format(
        "ArrayRecord of version {}, of which only {} can be read", metadata[0], kVersion));
  }
  if (metadata[1] != records.size() - 1) {
    return wrong_footer(fmt::format("its metadata says that there are {} chunks, but it lists {}",
                                    metadata[1], records.size() - 1));
  }
  ArrayRecordFooter footer;
  footer.digest = head->digest;
  footer.chunks.reserve(records.size() - 1);
  uint64_t sum = 0;
  for (size_t i = 1; i < records.size(); ++i) {
    uint64_t numbers[3] = {};
    if (!ReadNumbers(records[i], numbers)) {
      return wrong_footer(
          fmt::format("what it says about chunk {} is not an ArrayRecordFooter", i - 1));
    }
    const auto [begin, decoded_bytes, count] = std::tuple(numbers[0], numbers[1], numbers[2]);
    const bool first = footer.chunks.empty();
    const uint64_t before = first ? kRiegeliStartBytes : footer.chunks.back().begin;
    const uint64_t least = first ? before : before + kRiegeliChunkHeaderBytes;
    if (begin < least || begin >= offset || offset - begin < kRiegeliChunkHeaderBytes ||
        !CanBeginChunk(begin)) {
      return wrong_footer(
          fmt::format("chunk {} begins at byte {}, which is not between the one before it, at byte "
                      "{}, and the footer",
                      i - 1, begin, before));
    }
    // A chunk has at least as many bytes as records. Where it ends is not known yet.
    if (count == 0 || count > offset - begin || decoded_bytes > kMaxBytes - sum) {
      return cannot_be({.begin = begin, .records = count, .decoded_bytes = decoded_bytes});
    }
    sum += decoded_bytes;
    if (!footer.chunks.empty()) footer.chunks.back().end = begin;
    footer.chunks.push_back({.begin = begin,
                             .end = offset,
                             .first_record = footer.records(),
                             .records = count,
                             .decoded_bytes = decoded_bytes});
  }
  for (const ArrayRecordChunk& chunk : footer.chunks) {
    if (chunk.records > chunk.end - chunk.begin) return cannot_be(chunk);
  }
  if (metadata[2] != footer.records()) {
    return wrong_footer(
        fmt::format("its metadata says that there are {} records, but its chunks have {}",
                    metadata[2], footer.records()));
  }
  return footer;
}

}  // namespace shardfeed
