// A manifest that is accepted means the same once it is written and read again.

#include "shard/manifest.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto manifest = ParseManifest(testing::View(data, size), "fuzz.manifest.json");
  if (!manifest.ok()) return 0;
  (void)manifest->num_records();
  const std::string text = FormatManifest(*manifest);
  const auto again = ParseManifest(text, "again.manifest.json");
  FUZZ_EXPECT(again.ok());
  FUZZ_EXPECT(FormatManifest(*again) == text);
  return 0;
}

}  // namespace shardfeed
