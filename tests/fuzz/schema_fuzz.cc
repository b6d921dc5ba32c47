// Records separated by "||": the sum of two schemas is the schema of all of them.

#include "shard/schema.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest = testing::View(data, size);
  Schema all;
  Schema halves[2];
  for (int i = 0; !rest.empty(); ++i) {
    const size_t end = rest.find("||");
    const std::string_view record = rest.substr(0, end);
    const bool ok = all.AddRecord(record).ok();
    FUZZ_EXPECT(halves[i % 2].AddRecord(record).ok() == ok);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 2);
  }
  halves[0].Merge(halves[1]);
  FUZZ_EXPECT(halves[0].records() == all.records());
  FUZZ_EXPECT(halves[0].not_examples() == all.not_examples());
  return 0;
}

}  // namespace shardfeed
