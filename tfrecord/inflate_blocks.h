// Inflates deflated data whose block boundaries are known, several blocks side by side in one
// thread.
//
// Inflating a single stream is bound by latency: the position of a code depends on the length of
// the previous one, about 7 cycles each. Independent blocks fill that time. A block may copy
// content of preceding blocks that has not been inflated yet, so copies are collected, and made in
// order once everything before them is complete. This suits data that hardly shrinks, such as
// images, because it has few copies: it is inflated about twice as fast as by libdeflate. Other
// data is inflated more slowly.
//
// Format: RFC 1951.

#ifndef SHARDFEED_TFRECORD_INFLATE_BLOCKS_H_
#define SHARDFEED_TFRECORD_INFLATE_BLOCKS_H_

#include <cstddef>
#include <string_view>

#include "absl/types/span.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// Number of bytes after `data` that InflateBlocks may read.
inline constexpr size_t kInflateBlocksSlack = 8;

// Inflates `data` into `dst`, after the first `dictionary` bytes, which are the preceding content.
//
// `blocks` are starts of blocks in ascending order, as bits of `data` and bytes after the
// dictionary; any number of other blocks may lie between two of them. The last one is the end of
// the data: the end of a block, and also of the stream (except for up to 7 bits) if `ends_stream`.
//
// Returns false if the data is damaged, the positions are wrong, or there are so many copies that
// libdeflate is faster, which is noticed early; `dst` is then undefined. Neither `blocks` nor
// `data` is trusted. Thread-safe.
bool InflateBlocks(std::string_view data, absl::Span<const DeflateBlock> blocks, bool ends_stream,
                   absl::Span<char> dst, size_t dictionary);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_INFLATE_BLOCKS_H_
