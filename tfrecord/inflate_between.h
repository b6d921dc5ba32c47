// Inflates the content between two restart points of a GZIP or ZLIB shard in one step.
//
// libdeflate inflates faster than zlib, but accepts only whole deflate streams. The data between
// two points is turned into one in place (RFC 1951, section 3.2): the content that it refers to is
// put before it as a stored block, empty blocks shift the stream to the bit at which the data
// starts, and an empty final block ends it.

#ifndef SHARDFEED_TFRECORD_INFLATE_BETWEEN_H_
#define SHARDFEED_TFRECORD_INFLATE_BETWEEN_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// Number of spare bytes needed before and after the file's bytes.
inline constexpr size_t kInflateRoomBefore = 33 << 10;
inline constexpr size_t kInflateRoomBehind = 8;

// Inflates the data between `from` and `to` of a GZIP or ZLIB shard into `dst`, after
// `from.dictionary`; `dst` must have the size of both. The end of a shard counts as a point at a
// header.
//
// `blocks` are starts of deflate blocks between the two points; offsets count from the beginning of
// the file and of the content. They are not trusted. If there are any, and deflate hardly shrank
// the data, the data is inflated as described in inflate_blocks.h, otherwise by libdeflate.
//
// `room` consists of kInflateRoomBefore bytes, the file's bytes from the first that `from` needs
// (see RestartPoint::bits) to `to.file_offset`, and kInflateRoomBehind bytes. It is overwritten.
//
// DataLoss: the data is damaged or does not belong to a single member; `dst` is then undefined. The
// trailer is verified if a whole member lies between the points. Thread-safe.
absl::Status InflateBetween(Compression compression, const RestartPoint& from,
                            const RestartPoint& to, absl::Span<const DeflateBlock> blocks,
                            absl::Span<char> room, absl::Span<char> dst);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_INFLATE_BETWEEN_H_
