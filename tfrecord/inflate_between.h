// The content between two restart points of a GZIP or ZLIB shard, inflated at once.
//
// libdeflate inflates faster than zlib, but knows whole deflate streams only. What lies
// between two points is made one in place (RFC 1951, section 3.2): the content that it refers to is
// put before it as a stored block, blocks without content lead to the bit at which it starts, and
// an empty last block ends it.

#ifndef SHARDFEED_TFRECORD_INFLATE_BETWEEN_H_
#define SHARDFEED_TFRECORD_INFLATE_BETWEEN_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardfeed/options.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// Room for what is put before the file's bytes, and behind them.
inline constexpr size_t kInflateRoomBefore = 33 << 10;
inline constexpr size_t kInflateRoomBehind = 8;

// Inflates what lies between `from` and `to` of a GZIP or ZLIB shard into `dst`, behind
// `from.dictionary`: `dst` has the size of both. The end of a shard counts as a point at a header.
//
// `blocks`: places between them where deflate blocks start, bits and bytes counted from the file's
// and the content's beginning; not trusted. Where there are some, and deflate hardly shrank the
// data, it is inflated as inflate_blocks.h says, otherwise by libdeflate.
//
// `room` is kInflateRoomBefore bytes, the file's from the first that `from` needs (see
// RestartPoint::bits) to `to.file_offset`, and kInflateRoomBehind bytes. It is changed.
//
// DataLoss: the data is damaged, or is not one stretch of one member; what `dst` holds then is not
// to be used. The trailer is checked for a member that lies between whole. Thread safe.
absl::Status InflateBetween(Compression compression, const RestartPoint& from,
                            const RestartPoint& to, absl::Span<const DeflateBlock> blocks,
                            absl::Span<char> room, absl::Span<char> dst);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_INFLATE_BETWEEN_H_
