// Any index is refused, or answers every question without reading outside of it. Its two CRCs, and
// those of the indexes within it, are corrected first, as docs/index.md describes, so that the
// fuzzer gets past them.

#include <algorithm>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "shard/index/index.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

// Corrects the size and the CRCs of the index that is `index`.
void Fit(char* index, uint64_t size) {
  const std::string_view bytes(index, size);
  StoreLittleEndian<uint64_t>(size, index + 72);
  StoreLittleEndian(Crc32c(bytes.substr(88)), index + 80);
  StoreLittleEndian(Crc32c(bytes.substr(0, 84)), index + 84);
}

// Corrects the two indexes of chunks within the index of an ArrayRecord shard.
void FitChunks(std::string* bytes) {
  auto at = LoadLittleEndian<uint64_t>(bytes->data() + 56);
  for (int i = 0; i < 2; ++i) {
    if (at > bytes->size() || bytes->size() - at < 96) return;
    const auto size = LoadLittleEndian<uint64_t>(bytes->data() + at);
    if (size < 88 || size > bytes->size() - at - 8) return;
    Fit(bytes->data() + at + 8, size);
    at += 8 + size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(testing::View(data, size));
  if (size >= 88) {
    FitChunks(&bytes);
    Fit(bytes.data(), size);
  }
  const auto index = ShardIndex::FromBytes(bytes, "fuzz.index");
  if (!index.ok()) return 0;
  const uint64_t records = (*index)->records();
  const uint64_t stream_bytes = (*index)->summary().stream_bytes;
  const uint64_t step = records / 1000 + 1;
  for (uint64_t i = 0; i < records; i += step) (void)(*index)->Offset(i);
  (void)(*index)->Offset(records);
  for (uint64_t i = 0; i < records && (*index)->num_chunks() > 0; i += step) {
    const ArrayRecordChunk chunk = (*index)->ChunkOf(i);
    FUZZ_EXPECT(chunk.first_record <= i && i < chunk.end_record() && chunk.end_record() <= records);
    FUZZ_EXPECT(chunk.begin < chunk.end && chunk.end <= (*index)->summary().shard_bytes);
    FUZZ_EXPECT(chunk.decoded_bytes <= stream_bytes);
    FUZZ_EXPECT((*index)->FileOffset(i) == chunk.begin && (*index)->FileEnd(i) == chunk.end);
  }
  for (const LengthColumn& column : (*index)->lengths()) {
    for (uint64_t i = 0; i < records; i += step) FUZZ_EXPECT(column.At(i) <= column.max());
    if (records > 0) FUZZ_EXPECT(column.At(records - 1) <= column.total());
  }
  for (uint64_t i = 0; i < 50; ++i) {
    const uint64_t offset = stream_bytes / 50 * i;
    if (offset < stream_bytes) {
      FUZZ_EXPECT(records > 0);
      FUZZ_EXPECT((*index)->RecordAt(offset) < records);
    }
    if ((*index)->num_restart_points() == 0) continue;
    (void)(*index)->RestartBefore(offset);
    (void)(*index)->RestartAtOrAfter(offset);
    (void)(*index)->EndAtOrAfter(offset);
    (void)(*index)->BlocksBetween(offset, stream_bytes);
  }
  const uint64_t points = std::min<uint64_t>((*index)->num_restart_points(), 20);
  for (uint64_t i = 0; i < points; ++i) {
    FUZZ_EXPECT((*index)->PointAt(i).stream_offset <= stream_bytes);
    FUZZ_EXPECT((*index)->DictionaryAt(i).size() <= 32 << 10);
    (void)(*index)->BlocksBehind(i);
  }
  // The index agrees with its own records, and with nothing that is off by one byte.
  std::vector<Record> first(std::min<uint64_t>(records, 200));
  for (size_t i = 0; i < first.size(); ++i) first[i].offset = (*index)->Offset(i);
  FUZZ_EXPECT((*index)->CountAgreeing(0, first) == first.size());
  if (!first.empty()) {
    ++first.back().offset;
    FUZZ_EXPECT((*index)->CountAgreeing(0, first) == first.size() - 1);
  }
  return 0;
}

}  // namespace shardfeed
