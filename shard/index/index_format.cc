// The number in the header of an index that describes the format of its shard.

#include "shard/index/index.h"

namespace shardfeed {
namespace {

// The bits of the format that mean tar, MDS and ArrayRecord. Versions that know only TFRecord
// refuse them as a compression that they do not know.
constexpr uint32_t kTarBit = 1 << 8;
constexpr uint32_t kMdsBit = 1 << 9;
constexpr uint32_t kArrayRecordBit = 1 << 10;

}  // namespace

uint32_t FormatCode(ShardFormat format) {
  return static_cast<uint32_t>(format.compression) |
         (format.framing == Framing::kTar ? kTarBit : 0) |
         (format.framing == Framing::kMds ? kMdsBit : 0) |
         (format.framing == Framing::kArrayRecord ? kArrayRecordBit : 0);
}

std::optional<ShardFormat> FormatOf(uint32_t code) {
  // As a whole, neither of these is compressed.
  if (code == kMdsBit) return ShardFormat{Compression::kNone, Framing::kMds};
  if (code == kArrayRecordBit) return ShardFormat{Compression::kNone, Framing::kArrayRecord};
  const uint32_t compression = code & ~kTarBit;
  if (compression > static_cast<uint32_t>(Compression::kSnappy)) return std::nullopt;
  return ShardFormat{static_cast<Compression>(compression),
                     (code & kTarBit) != 0 ? Framing::kTar : Framing::kTfRecord};
}

bool FillsShard(const IndexSummary& summary) {
  if (summary.framing == Framing::kMds || summary.framing == Framing::kArrayRecord) {
    if (summary.records > summary.stream_bytes / kFrameBytes) return false;
    if (summary.framing == Framing::kArrayRecord) return true;
    return summary.stream_bytes - summary.records * kFrameBytes <= summary.shard_bytes;
  }
  if (summary.framing == Framing::kTar) return summary.stream_bytes <= summary.shard_bytes;
  return summary.stream_bytes == summary.shard_bytes;
}

}  // namespace shardfeed
