// InflateBlocks beside zlib. Four bytes choose which of the blocks found by zlib are given, and how
// one is made wrong; deflated data without a header follows.

#include <zlib.h>

#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tfrecord/inflate_blocks.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 5) return 0;
  std::vector<DeflateBlock> blocks = {{0, 0}};
  static std::string out(1 << 20, '\0');  // static, because clearing it takes longer than the rest
  z_stream stream = {};
  inflateInit2(&stream, -15);
  stream.next_in = const_cast<Bytef*>(data + 4);
  stream.avail_in = size - 4;
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  int result = Z_OK;
  while (result == Z_OK && stream.avail_out > 0) {
    result = inflate(&stream, Z_BLOCK);
    if (result == Z_OK && (stream.data_type & 128) != 0 && (stream.data_type & 64) == 0 &&
        blocks.size() % (1 + data[0] % 4) == 0) {
      blocks.push_back({8 * stream.total_in - (stream.data_type & 7), stream.total_out});
    }
  }
  const bool sound = result == Z_STREAM_END;
  const size_t used = sound ? stream.total_in : size - 4;
  const std::string expected = out.substr(0, stream.total_out);
  inflateEnd(&stream);
  blocks.push_back({8 * used, expected.size()});
  DeflateBlock& changed = blocks[data[1] % blocks.size()];
  changed.bit += static_cast<int8_t>(data[2]);
  changed.offset += static_cast<int8_t>(data[3]);

  std::string slack(testing::View(data + 4, used));
  slack.append(kInflateBlocksSlack, '\xff');
  std::string found(expected.size(), '\0');
  const bool ok = InflateBlocks(std::string_view(slack).substr(0, used), blocks,
                                /*ends_stream=*/true, absl::MakeSpan(found), /*dictionary=*/0);
  // From another first bit, these bytes may be another valid stream.
  if (!ok || blocks[0].bit != 0) return 0;
  FUZZ_EXPECT(sound);
  FUZZ_EXPECT(found == expected);
  return 0;
}

}  // namespace shardfeed
