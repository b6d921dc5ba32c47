// The content of a compressed shard as a stream of bytes, from its beginning or from a restart
// point. Nothing that the file says about itself is trusted.

#ifndef SHARDFEED_TFRECORD_DECOMPRESS_H_
#define SHARDFEED_TFRECORD_DECOMPRESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/byte_source.h"
#include "shardfeed/options.h"

namespace shardfeed {

// How far back deflated data can refer to.
inline constexpr size_t kDictionaryBytes = 32 << 10;

// Minimum content between two reported blocks: less than a block holds where nothing is repeated.
inline constexpr uint64_t kDeflateBlockInterval = 8 << 10;

// A place in a compressed file from which decompression can start.
struct RestartPoint {
  // Offset in the file of the first byte that is needed in full.
  uint64_t file_offset = 0;
  // Offset in the decompressed stream.
  uint64_t stream_offset = 0;
  // Deflate blocks need not start at a byte boundary: this many of the highest bits (0 to 7) of the
  // byte before `file_offset` come first.
  int bits = 0;
  // True if a GZIP member, a ZLIB stream or a SNAPPY block starts here, with its own header;
  // otherwise the point is in the middle of deflated data.
  bool at_header = true;
  // The preceding content that the data after the point refers to: up to 32 KiB, empty if there are
  // no such references.
  std::string dictionary;
};

// The start of a block of deflated data. The origin of both offsets depends on the use.
struct DeflateBlock {
  // Bit offset in the compressed data; the lowest bit of a byte comes first.
  uint64_t bit = 0;
  // Byte offset in the content.
  uint64_t offset = 0;
};

struct DecompressOptions {
  // Called for a restart point whenever at least `restart_interval` bytes of content have passed
  // since the last one. The first point is the beginning. The call precedes the delivery of the
  // content at the point.
  std::function<void(RestartPoint)> on_restart_point;
  // If on_restart_point is set too, called for blocks of deflated data that start between two
  // restart points of one member, at least kDeflateBlockInterval bytes of content after the
  // previous point or block. Offsets count from the beginning of the file and of the content.
  std::function<void(DeflateBlock)> on_deflate_block;
  uint64_t restart_interval = 4 << 20;
  // If set, decides instead of `restart_interval` whether a possible restart point, at `bit` of the
  // file, is to be one. May be called several times for one place.
  std::function<bool(uint64_t bit)> is_restart_point;
};

// Not thread-safe.
class Decompressor : public ByteSource {
 public:
  // File offset of the data that is not decoded yet. An error occurred near it.
  virtual uint64_t file_offset() const = 0;

  // After a DataLoss error: skips to the next GZIP member that was written by AppendGzipMember, and
  // thus starts with a whole record. Returns false if there is none, so the rest of the file is
  // lost.
  virtual absl::StatusOr<bool> SkipToNextMember() { return false; }
};

// `compression` must not be kNone. `source` must be positioned at `from.file_offset` (one byte
// before it if `from.bits` is not 0) and must outlive the decompressor.
//
// Read returns DataLoss if the data is damaged or truncated, if a trailer (CRC-32 and size,
// Adler-32) is wrong or missing, or if bytes follow the end. The trailer of a member or stream is
// not verified if decompression started in the middle of it.
std::unique_ptr<Decompressor> MakeDecompressor(Compression compression, ByteSource* source,
                                               RestartPoint from = {},
                                               DecompressOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_DECOMPRESS_H_
