// A text index agrees with a shard only if it equals what WriteTextIndex writes, except for blanks.

#include "shard/indexing/text_index.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const ShardIndex> index = [] {
    IndexBuilder builder;
    for (const uint64_t bytes : {20, 116, 16}) (void)builder.AddFrame(bytes);
    return *ShardIndex::FromBytes(*builder.Finish({.shard_bytes = 152}), "shard.index");
  }();
  const std::string_view text = testing::View(data, size);
  const testing::FuzzFile file("a.tfrecord.idx", text);
  const std::string shard = file.path().substr(0, file.path().size() - 4);
  std::string digits;
  for (const char c : text) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const bool ok = CompareTextIndex(shard, *index).ok();
  if (text == "0 20\n20 116\n136 16\n") FUZZ_EXPECT(ok);
  if (ok) FUZZ_EXPECT(digits.find_first_not_of('0') != std::string::npos);
  return 0;
}

}  // namespace shardfeed
