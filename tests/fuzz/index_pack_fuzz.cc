// Any index pack is refused, or gives indexes that agree with its directory. Its sizes and CRCs are
// made right first, as docs/index_pack.md has them, so that the fuzzer gets past them.

#include <algorithm>
#include <string>

#include "base/little_endian.h"
#include "shard/index/index_pack.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The lowest bits say how many shards are expected, the highest what is left as it is.
  const size_t count = data[0] & 7;
  std::string bytes(testing::View(data + 1, size - 1));
  if (bytes.size() >= 40 && (data[0] & 128) == 0) {
    const std::string_view view = bytes;
    const uint32_t names = Crc32c("-00000-of-0000" + std::to_string(count));
    const uint32_t directory = Crc32c(view.substr(40, 40 * count));
    StoreLittleEndian<uint64_t>(count, bytes.data() + 8);
    StoreLittleEndian<uint64_t>(bytes.size(), bytes.data() + 16);
    StoreLittleEndian(names, bytes.data() + 24);
    StoreLittleEndian(directory, bytes.data() + 28);
    StoreLittleEndian(Crc32c(view.substr(0, 36)), bytes.data() + 36);
  }
  const auto pack = IndexPack::FromBytes(bytes, "fuzz.indexes", count, "");
  if (!pack.ok()) {
    FUZZ_EXPECT(absl::IsDataLoss(pack.status()));
    return 0;
  }
  FUZZ_EXPECT((*pack)->num_shards() == count);
  uint64_t records = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto index = (*pack)->Index(i);
    if (!index.ok()) {
      FUZZ_EXPECT(absl::IsDataLoss(index.status()));
      continue;
    }
    FUZZ_EXPECT((*index)->records() == (*pack)->summary(i).records);
    FUZZ_EXPECT((*index)->bytes().size() < bytes.size());
    FUZZ_EXPECT((*index)->Offset((*index)->records()) == (*pack)->summary(i).stream_bytes);
    records += (*index)->records();
  }
  // No sum over the shards overflows.
  FUZZ_EXPECT(records <= UINT64_MAX / 16);
  return 0;
}

}  // namespace shardfeed
