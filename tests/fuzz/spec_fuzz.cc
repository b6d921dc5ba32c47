// Names of shards and specs: a name that can be parsed is formatted to itself.

#include "shard/spec/spec.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = testing::View(data, size);
  if (const auto name = ParseShardName(text)) {
    const auto again =
        ParseShardName(ShardName(name->stem, name->index, name->count, name->suffix));
    FUZZ_EXPECT(again);
    FUZZ_EXPECT(again->stem == name->stem && again->suffix == name->suffix);
    FUZZ_EXPECT(again->index == name->index && again->count == name->count);
  }
  if (const auto spec = ParseOutputSpec(text); spec.ok()) {
    FUZZ_EXPECT(!spec->count || (*spec->count >= 1 && *spec->count <= kMaxShards));
    FUZZ_EXPECT(!spec->stem.empty());
    const auto name = ParseShardName(ShardName(spec->stem, 0, 10, spec->suffix));
    FUZZ_EXPECT(name);
    FUZZ_EXPECT(name->stem == spec->stem && name->suffix == spec->suffix);
  }
  return 0;
}

}  // namespace shardfeed
