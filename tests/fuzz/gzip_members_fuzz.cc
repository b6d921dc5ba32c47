// InflateMember beside zlib, on one whole member.

#include <zlib.h>

#include "tests/fuzz/fuzz.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view member = testing::View(data, size);
  const size_t next = FindSizedMember(member);
  FUZZ_EXPECT(next == std::string_view::npos || next + kSizedMemberHeaderBytes <= size);
  if (next != std::string_view::npos) FUZZ_EXPECT(SizedMemberBytes(member.substr(next)));
  if (size > 2000) return 0;  // Deflate expands a byte to at most 1032.

  static std::string out(2000 * kMaxDeflateRatio,
                         '\0');  // static, because clearing it takes longer than the rest
  z_stream stream = {};
  inflateInit2(&stream, 31);
  stream.next_in = const_cast<Bytef*>(data);
  stream.avail_in = size;
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  const bool sound = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0;
  const std::string expected = out.substr(0, stream.total_out);
  inflateEnd(&stream);

  std::string found = "before";
  const bool ok = InflateMember(member, &found).ok();
  // Members without a size field are left to the decompressor.
  FUZZ_EXPECT(ok == (sound && SizedMemberBytes(member) == size));
  if (!ok) return 0;
  FUZZ_EXPECT(found == "before" + expected);
  std::string exact(expected.size(), '\0');
  const auto n = InflateMember(member, absl::MakeSpan(exact));
  FUZZ_EXPECT(n.ok() && *n == expected.size() && exact == expected);
  if (!expected.empty()) {
    FUZZ_EXPECT(!InflateMember(member, absl::MakeSpan(exact.data(), exact.size() - 1)).ok());
  }
  return 0;
}

}  // namespace shardfeed
