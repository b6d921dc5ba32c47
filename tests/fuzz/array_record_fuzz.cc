// An ArrayRecord file: it is refused, or its chunks are decoded or refused one by one. Hashes are
// made right or not checked, so that what they protect is reached.

#include <algorithm>
#include <memory>
#include <string>

#include "base/little_endian.h"
#include "io/byte_source.h"
#include "shard/index/index.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/highway_hash.h"
#include "tfrecord/record_stream.h"
#include "tfrecord/riegeli_chunk.h"

namespace shardfeed {
namespace {

// `bytes` with right hashes of the chunk whose header is at `at`, if it has no more than them.
std::string WithHashes(std::string_view bytes, size_t at) {
  std::string fitted(bytes);
  if (fitted.size() < at + kRiegeliChunkHeaderBytes) return fitted;
  char* const header = fitted.data() + at;
  const std::string_view data = std::string_view(fitted).substr(at + kRiegeliChunkHeaderBytes);
  const auto size = LoadLittleEndian<uint64_t>(header + 8);
  StoreLittleEndian(HighwayHash64(kRiegeliKey, data.substr(0, size)), header + 16);
  StoreLittleEndian(HighwayHash64(kRiegeliKey, {header + 8, kRiegeliChunkHeaderBytes - 8}), header);
  return fitted;
}

// Any chunk, where the input begins.
void ReadChunk(std::string_view bytes) {
  RiegeliChunkHeader header;
  std::string scratch;
  std::string_view data;
  SimpleChunk chunk;
  const uint64_t begin = bytes.size() % 2 == 0 ? 0 : kRiegeliBlockBytes - 50;
  if (!ReadRiegeliChunk(bytes, begin, CrcCheck::kNone, &scratch, &header, &data).empty()) return;
  FUZZ_EXPECT(data.size() == header.data_bytes);
  FUZZ_EXPECT(RiegeliChunkEnd(begin, header) - begin <= bytes.size());
  if (!ParseSimpleChunk(header, data, &chunk).empty()) return;
  FUZZ_EXPECT(chunk.sizes.size() == header.records);
  FUZZ_EXPECT(chunk.decoded_bytes == header.decoded_bytes);
  if (chunk.decoded_bytes > 1 << 20) return;
  std::string decoded(chunk.decoded_bytes, '\0');
  DecodeSimpleChunk(chunk, decoded.data());
}

// A file: the second half of the input is the footer of chunks in the first half.
void ReadFile(std::string_view bytes) {
  const size_t half = bytes.size() / 2;
  absl::StatusOr<ArrayRecordFooter> footer =
      ParseArrayRecordFooter(WithHashes(bytes.substr(half), 0), kRiegeliStartBytes + half);
  if (!footer.ok()) return;
  const uint64_t records = footer->records();
  if (records > 1000) return;
  uint64_t decoded = 0;
  for (const ArrayRecordChunk& chunk : footer->chunks) {
    FUZZ_EXPECT(chunk.begin < chunk.end && chunk.end <= kRiegeliStartBytes + half);
    decoded += chunk.decoded_bytes;
  }
  if (decoded > 1 << 20) return;
  // Its index has the same chunks.
  IndexBuilder builder;
  for (const ArrayRecordChunk& chunk : footer->chunks) {
    for (uint64_t i = 0; i < chunk.records; ++i) {
      FUZZ_EXPECT(builder.AddFrame(chunk.FrameBytes(i)).ok());
    }
  }
  FUZZ_EXPECT(builder.SetChunks(*footer).ok());
  IndexSummary summary;
  summary.framing = Framing::kArrayRecord;
  summary.shard_bytes = UINT64_MAX;
  const auto index = ShardIndex::FromBytes(*builder.Finish(summary), "index");
  FUZZ_EXPECT(index.ok());
  for (uint64_t record = 0; record < records; ++record) {
    const ArrayRecordChunk& chunk = footer->chunks[footer->ChunkOf(record)];
    const ArrayRecordChunk found = (*index)->ChunkOf(record);
    FUZZ_EXPECT(found.begin == chunk.begin && found.end == chunk.end &&
                found.first_record == chunk.first_record && found.records == chunk.records &&
                found.decoded_bytes == chunk.decoded_bytes);
  }
  // The bytes from the first chunk on.
  const uint64_t first = footer->chunks.empty() ? 0 : footer->chunks[0].begin - kRiegeliStartBytes;
  MemorySource source(bytes.substr(std::min<uint64_t>(first, half), half));
  RecordStreamOptions options;
  options.framing = Framing::kArrayRecord;
  options.check = CrcCheck::kNone;
  options.block_bytes = 64;
  options.array_record = std::make_shared<const ArrayRecordFooter>(*std::move(footer));
  RecordStream stream(&source, options);
  uint64_t next = 0;
  while (next < records) {
    FUZZ_EXPECT(stream.record() == next);
    RecordBlock block;
    if (!stream.Next(&block).ok()) {
      FUZZ_EXPECT(stream.defect() == FrameDefect::kArrayRecord);
      FUZZ_EXPECT(stream.Recover().ok());
      FUZZ_EXPECT(stream.record() > next);
      next = stream.record();
      continue;
    }
    FUZZ_EXPECT(!block.records.empty());
    for (const Record& record : block.records) {
      FUZZ_EXPECT(record.offset == (*index)->Offset(next));
      FUZZ_EXPECT(FrameBytes(record, Framing::kArrayRecord) ==
                  (*index)->Offset(next + 1) - (*index)->Offset(next));
      ++next;
    }
  }
  FUZZ_EXPECT(stream.offset() == (*index)->summary().stream_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = testing::View(data, size);
  ReadChunk(bytes);
  ReadFile(bytes);
  const absl::StatusOr<uint64_t> offset = ParseArrayRecordPostscript(
      WithHashes(bytes, kRiegeliBlockHeaderBytes), 4 * kRiegeliBlockBytes);
  if (offset.ok()) FUZZ_EXPECT(CanBeginChunk(*offset) && *offset < 3 * kRiegeliBlockBytes);
  return 0;
}

}  // namespace shardfeed
