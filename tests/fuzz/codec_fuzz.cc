// Decompressors of raw data: whole or piece by piece, any bytes give the same content or an error.

#include <string>
#include <vector>

#include "convert/input/codec.h"
#include "io/byte_source.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {
namespace {

constexpr size_t kMaxContentBytes = 1 << 20;

struct Content {
  std::string bytes;
  absl::Status status;
};

Content ContentOf(Codec codec, std::string_view file, size_t at_once) {
  MemorySource source(file);
  const auto decompressor = MakeCodecDecompressor(codec, &source);
  Content content;
  std::vector<char> piece(at_once);
  while (content.bytes.size() < kMaxContentBytes) {
    absl::StatusOr<size_t> n = decompressor->Read(absl::MakeSpan(piece));
    content.status = n.status();
    if (!n.ok() || *n == 0) break;
    FUZZ_EXPECT(*n <= at_once);
    content.bytes.append(piece.data(), *n);
  }
  return content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file = testing::View(data, size);
  const Codec codec = CodecOf(file);
  if (codec == Codec::kNone) return 0;
  const Content whole = ContentOf(codec, file, kMaxContentBytes);
  const Content pieces = ContentOf(codec, file, 777);
  if (whole.bytes.size() >= kMaxContentBytes) return 0;
  FUZZ_EXPECT(whole.status.ok() == pieces.status.ok());
  if (whole.status.ok()) FUZZ_EXPECT(whole.bytes == pieces.bytes);
  return 0;
}

}  // namespace shardfeed
