// Decompressors, and InflateBetween from each restart point that they report, beside zlib. The
// first byte chooses the compression.

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "io/byte_source.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/decompress.h"
#include "tfrecord/gzip_members.h"
#include "tfrecord/inflate_between.h"

namespace shardfeed {
namespace {

constexpr size_t kMaxContentBytes = 1 << 20;

struct Content {
  std::string bytes;
  bool ok = false;
  bool too_large = false;
};

Content ByZlib(std::string_view compressed, int window_bits, bool members) {
  Content content;
  std::string out(1 << 16, '\0');
  z_stream stream = {};
  inflateInit2(&stream, window_bits);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = compressed.size();
  int result = Z_OK;
  while (result == Z_OK && !content.too_large) {
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = out.size();
    result = inflate(&stream, Z_NO_FLUSH);
    content.bytes.append(out, 0, out.size() - stream.avail_out);
    content.too_large = content.bytes.size() > kMaxContentBytes;
    if (result == Z_STREAM_END && stream.avail_in > 0 && members) result = inflateReset(&stream);
  }
  content.ok = result == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return content;
}

Content ByShardfeed(Decompressor& decompressor) {
  Content content;
  std::string out(10'007, '\0');
  while (!content.too_large) {
    const absl::StatusOr<size_t> n = decompressor.Read(absl::MakeSpan(out));
    if (!n.ok()) return content;
    if (*n == 0) break;
    content.bytes.append(out, 0, *n);
    content.too_large = content.bytes.size() > kMaxContentBytes;
  }
  content.ok = !content.too_large;
  return content;
}

void CheckBetween(Compression compression, std::string_view bytes, const std::string& content,
                  const RestartPoint& from, const RestartPoint& to,
                  const std::vector<DeflateBlock>& blocks) {
  const uint64_t begin = from.file_offset - (from.bits > 0);
  std::string room = std::string(kInflateRoomBefore, 'x') +
                     std::string(bytes.substr(begin, to.file_offset - begin)) +
                     std::string(kInflateRoomBehind, 'x');
  std::string found(from.dictionary.size() + to.stream_offset - from.stream_offset, '\0');
  std::vector<DeflateBlock> between;
  for (const DeflateBlock& block : blocks) {
    if (block.offset > from.stream_offset && block.offset < to.stream_offset) {
      between.push_back(block);
    }
  }
  const absl::Status status =
      InflateBetween(compression, from, to, between, absl::MakeSpan(room), absl::MakeSpan(found));
  // Several members need more than one call.
  FUZZ_EXPECT(status.ok() || compression == Compression::kGzip);
  if (!status.ok()) return;
  FUZZ_EXPECT(
      std::string_view(found).substr(from.dictionary.size()) ==
      std::string_view(content).substr(from.stream_offset, to.stream_offset - from.stream_offset));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static constexpr Compression kAll[] = {Compression::kGzip, Compression::kZlib,
                                         Compression::kSnappy};
  const Compression compression = kAll[data[0] % 3];
  const std::string_view bytes = testing::View(data + 1, size - 1);

  std::vector<RestartPoint> points;
  std::vector<DeflateBlock> blocks;
  DecompressOptions options;
  options.restart_interval = 1 + 64 * (data[0] / 3);
  options.on_restart_point = [&](RestartPoint point) {
    if (points.size() < 8) points.push_back(std::move(point));
  };
  options.on_deflate_block = [&](DeflateBlock block) { blocks.push_back(block); };
  MemorySource source(absl::MakeConstSpan(bytes.data(), bytes.size()));
  const auto decompressor = MakeDecompressor(compression, &source, {}, options);
  const Content found = ByShardfeed(*decompressor);
  if (compression == Compression::kSnappy) return 0;

  const bool gzip = compression == Compression::kGzip;
  const Content expected = ByZlib(bytes, gzip ? 31 : 15, gzip);
  const size_t common = std::min(found.bytes.size(), expected.bytes.size());
  FUZZ_EXPECT(std::string_view(found.bytes).substr(0, common) ==
              std::string_view(expected.bytes).substr(0, common));
  if (found.too_large || expected.too_large) return 0;
  FUZZ_EXPECT(found.ok == expected.ok);
  if (!found.ok) return 0;
  FUZZ_EXPECT(found.bytes.size() == expected.bytes.size());

  RestartPoint end;
  end.file_offset = bytes.size();
  end.stream_offset = found.bytes.size();
  points.push_back(end);
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    CheckBetween(compression, bytes, found.bytes, points[i], points[i + 1], blocks);
    CheckBetween(compression, bytes, found.bytes, points[i], points.back(), blocks);
    MemorySource rest(
        absl::MakeConstSpan(bytes).subspan(points[i].file_offset - (points[i].bits > 0)));
    const Content from = ByShardfeed(*MakeDecompressor(compression, &rest, points[i]));
    FUZZ_EXPECT(from.ok);
    FUZZ_EXPECT(std::string_view(from.bytes) ==
                std::string_view(found.bytes).substr(points[i].stream_offset));
  }
  return 0;
}

}  // namespace shardfeed
