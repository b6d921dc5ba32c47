// A manifest that is accepted means the same after it is written and read again. If the first byte
// is even, the rest is a document without its end, which is sealed first (docs/manifest.md).

#include "fmt/format.h"
#include "shard/manifest/manifest.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string json(testing::View(data + 1, size - 1));
  if (data[0] % 2 == 0) json += fmt::format("\"crc32c\": \"{:08x}\"\n}}\n", Crc32c(json));
  // The name determines the dataset.
  const auto manifest =
      ParseManifest(json, data[0] & 2 ? "any" : "d/.shardfeed/train.manifest.json");
  if (!manifest.ok()) return 0;
  (void)manifest->num_records();
  const std::string text = FormatManifest(*manifest);
  const auto again = ParseManifest(text, "again");
  FUZZ_EXPECT(again.ok());
  FUZZ_EXPECT(FormatManifest(*again) == text);
  return 0;
}

}  // namespace shardfeed
