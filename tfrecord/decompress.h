// The content of a compressed shard as a stream of bytes, from its beginning or from a restart
// point, without trust in what the file says of itself.

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

// Content between two blocks that are told of: less than a block has where nothing is repeated.
inline constexpr uint64_t kDeflateBlockInterval = 8 << 10;

// A place in a compressed file from which decompression can start.
struct RestartPoint {
  // In the file; the first byte that is needed whole.
  uint64_t file_offset = 0;
  // In the decompressed stream.
  uint64_t stream_offset = 0;
  // Deflate's blocks do not start at bytes: so many of the highest bits of the byte before
  // `file_offset` (0 to 7) come first.
  int bits = 0;
  // A GZIP member, a ZLIB stream or a SNAPPY block starts here, with its own header. Otherwise it
  // is the middle of deflated data.
  bool at_header = true;
  // The content before the point that the data after it refers to: up to 32 KiB, empty where
  // nothing is referred to.
  std::string dictionary;
};

// Where a block of deflated data starts. What the numbers count from is said where they are used.
struct DeflateBlock {
  uint64_t bit = 0;     // of the compressed data, lowest of a byte first
  uint64_t offset = 0;  // of the content, in bytes
};

struct DecompressOptions {
  // Called for a point each time that at least `restart_interval` bytes of content (in members and
  // blocks that bring no header: of content and compressed data) have passed since the last one.
  // The first point is the beginning. The call comes before the content at the point is delivered.
  std::function<void(RestartPoint)> on_restart_point;
  // Called along with it for blocks of deflated data that start between two restart points of one
  // member, at least kDeflateBlockInterval bytes of content after the point or block before. Bits
  // and bytes count from the file's and the content's beginning.
  std::function<void(DeflateBlock)> on_deflate_block;
  uint64_t restart_interval = 4 << 20;
  // Decides in the place of `restart_interval` whether there is a restart point where it could be,
  // which is at `bit` of the file. May be asked several times about one place.
  std::function<bool(uint64_t bit)> is_restart_point;
};

// Not thread safe.
class Decompressor : public ByteSource {
 public:
  // Where in the file the data that was not yet decoded starts: what an error is near to.
  virtual uint64_t file_offset() const = 0;

  // After a DataLoss error: goes to the next GZIP member of those that AppendGzipMember writes,
  // which starts with a whole record. False when there is none: the rest of the file is lost.
  virtual absl::StatusOr<bool> SkipToNextMember() { return false; }
};

// `compression` is not kNone. `source` stands at `from.file_offset` (one byte before it, when
// `from.bits` is not 0) and must outlive the decompressor.
//
// Read returns DataLoss when the data is damaged or cut, when a trailer (CRC-32 and size, Adler-32)
// is wrong or missing, or when bytes follow the end. Trailers are not checked for a member or
// stream that was entered in its middle.
std::unique_ptr<Decompressor> MakeDecompressor(Compression compression, ByteSource* source,
                                               RestartPoint from = {},
                                               DecompressOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_DECOMPRESS_H_
