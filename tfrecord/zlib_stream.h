// ZLIB written as one stream with full-flush points between whole records, so that it can be
// compressed in parallel and inflated from any such point. (TensorFlow ignores everything after the
// first ZLIB stream, so several streams in a file, analogous to GZIP members, would lose records.)
//
//   header (2 bytes) | segment ... | end (empty final block, Adler-32 of all content)
//
// Source: RFC 1950, RFC 1951; Z_FULL_FLUSH in zlib.h.

#ifndef SHARDFEED_TFRECORD_ZLIB_STREAM_H_
#define SHARDFEED_TFRECORD_ZLIB_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace shardfeed {

// One part of the stream's content, deflated independently up to a full-flush point. Raw inflate
// may start at it without history.
struct ZlibSegment {
  // Adler-32 and size of the uncompressed content.
  uint32_t adler32;
  uint64_t content_bytes;
};

void AppendZlibHeader(std::string* out);
// `level` is from 1 (fast) to 9 (small). Thread-safe; segments may be compressed in any order.
ZlibSegment AppendZlibSegment(std::string_view content, int level, std::string* out);
// `adler32` is that of the whole content: see CombineAdler32.
void AppendZlibEnd(uint32_t adler32, std::string* out);

// Returns the Adler-32 of A followed by `segment`, where `adler32` is that of A (1 if A is empty).
uint32_t CombineAdler32(uint32_t adler32, const ZlibSegment& segment);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_ZLIB_STREAM_H_
