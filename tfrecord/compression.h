// How the bytes of a shard are compressed.

#ifndef SHARDFEED_TFRECORD_COMPRESSION_H_
#define SHARDFEED_TFRECORD_COMPRESSION_H_

#include <optional>
#include <string_view>

namespace shardfeed {

// The whole stream of frames is compressed, not each record. kGzip: RFC 1952, one or more members.
// kZlib: RFC 1950, one stream. kSnappy: TensorFlow's container, read only.
enum class Compression { kNone, kGzip, kZlib, kSnappy };

// "none", "gzip", "zlib", "snappy".
std::string_view CompressionName(Compression compression);
std::optional<Compression> ParseCompression(std::string_view name);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_COMPRESSION_H_
