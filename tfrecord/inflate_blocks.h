// Deflated data whose blocks are known to start at given places, inflated several blocks side by
// side in one thread.
//
// Who inflates one stream waits: where a code starts follows from the length of the code before,
// about 7 cycles each. Other blocks, which do not wait for these, fill that time. A block may copy
// content of the blocks before it that is not there yet, so copies are kept and done in order, once
// all before them is there: this is for data that hardly shrinks, where they are few, as images
// are. Of such data it inflates about twice as much as libdeflate in the same time; of other data,
// less.
//
// Format: RFC 1951.

#ifndef SHARDFEED_TFRECORD_INFLATE_BLOCKS_H_
#define SHARDFEED_TFRECORD_INFLATE_BLOCKS_H_

#include <cstddef>
#include <string_view>

#include "absl/types/span.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

// Bytes behind `data` that InflateBlocks may read.
inline constexpr size_t kInflateBlocksSlack = 8;

// Inflates `data` into `dst` behind its first `dictionary` bytes, the content before.
//
// `blocks`: where blocks start, by bits of `data` and bytes behind the dictionary, in rising order;
// any number of blocks may lie between two of these places. The last one is where the data ends: at
// the end of a block, and of the stream (but for up to 7 bits) if `ends_stream`.
//
// False: the data is damaged, the places are wrong, or there are so many copies that libdeflate is
// faster, which is noticed early; what `dst` holds then is not to be used.
// Nothing said by `blocks` or `data` is trusted. Thread safe.
bool InflateBlocks(std::string_view data, absl::Span<const DeflateBlock> blocks, bool ends_stream,
                   absl::Span<char> dst, size_t dictionary);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_INFLATE_BLOCKS_H_
