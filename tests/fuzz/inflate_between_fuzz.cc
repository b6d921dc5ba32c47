// InflateBetween with any two restart points: if it accepts them with given blocks, the result is
// the same without. Six bytes choose the points, four each choose where blocks start; the file's
// bytes follow.

#include <string>
#include <vector>

#include "base/little_endian.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/inflate_between.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 6) return 0;
  const Compression compression = data[0] & 1 ? Compression::kGzip : Compression::kZlib;
  RestartPoint from;
  RestartPoint to;
  from.file_offset = 1000;
  from.stream_offset = 5000;
  from.at_header = data[0] & 2;
  to.at_header = data[0] & 4;
  if (!from.at_header) {
    from.bits = data[1] & 7;
    from.dictionary.assign(data[4] * 128, 'w');
  }
  if (!to.at_header) to.bits = data[1] >> 4 & 7;
  to.stream_offset =
      from.stream_offset + LoadLittleEndian<uint16_t>(reinterpret_cast<const char*>(data) + 2);
  const size_t num_blocks = data[5] % 8;
  std::string_view file = testing::View(data + 6, size - 6);
  if (file.size() <= 4 * num_blocks) return 0;
  std::vector<DeflateBlock> blocks;
  for (size_t i = 0; i < num_blocks; ++i) {
    blocks.push_back({8 * from.file_offset + LoadLittleEndian<uint16_t>(file.data()),
                      from.stream_offset + LoadLittleEndian<uint16_t>(file.data() + 2)});
    file.remove_prefix(4);
  }
  to.file_offset = from.file_offset + file.size() - (from.bits > 0);
  // Points ascend in the file.
  if (to.file_offset == from.file_offset) return 0;

  const auto inflate = [&](absl::Span<const DeflateBlock> told, std::string* content) {
    std::string room = std::string(kInflateRoomBefore, 'x') + std::string(file) +
                       std::string(kInflateRoomBehind, 'x');
    room.shrink_to_fit();
    content->assign(from.dictionary.size() + to.stream_offset - from.stream_offset, '\0');
    return InflateBetween(compression, from, to, told, absl::MakeSpan(room),
                          absl::MakeSpan(*content))
        .ok();
  };
  std::string with_blocks;
  std::string without;
  if (inflate(blocks, &with_blocks)) {
    FUZZ_EXPECT(inflate({}, &without));
    FUZZ_EXPECT(std::string_view(with_blocks).substr(from.dictionary.size()) ==
                std::string_view(without).substr(from.dictionary.size()));
  }
  return 0;
}

}  // namespace shardfeed
