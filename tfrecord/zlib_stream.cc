#include "tfrecord/zlib_stream.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <utility>

namespace shardfeed {
namespace {

// A raw deflate state that is reused for the thread's next segment.
class ThreadDeflater {
 public:
  z_stream* Reset(int level) {
    if (level_ == level) {
      deflateReset(&stream_);
      return &stream_;
    }
    if (std::exchange(level_, 0) != 0) deflateEnd(&stream_);
    stream_ = {};
    // Memory level 9, as TensorFlow's writer uses.
    if (deflateInit2(&stream_, level, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
    level_ = level;
    return &stream_;
  }
  ~ThreadDeflater() {
    if (level_ != 0) deflateEnd(&stream_);
  }

 private:
  z_stream stream_ = {};
  int level_ = 0;
};

}  // namespace

void AppendZlibHeader(std::string* out) { out->append("\x78\x9c", 2); }

ZlibSegment AppendZlibSegment(std::string_view content, int level, std::string* out) {
  thread_local ThreadDeflater deflater;
  z_stream* stream = deflater.Reset(std::clamp(level, 1, 9));
  constexpr size_t kMaxCall = size_t{1} << 30;  // zlib counts bytes in an unsigned int.
  ZlibSegment segment = {.adler32 = static_cast<uint32_t>(adler32(0, nullptr, 0)),
                         .content_bytes = content.size()};
  segment.adler32 =
      adler32_z(segment.adler32, reinterpret_cast<const Bytef*>(content.data()), content.size());
  do {
    const size_t n = std::min(content.size(), kMaxCall);
    stream->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream->avail_in = static_cast<uInt>(n);
    content.remove_prefix(n);
    const int flush = content.empty() ? Z_FULL_FLUSH : Z_NO_FLUSH;
    do {
      const size_t size = out->size();
      const size_t room = std::clamp<size_t>(stream->avail_in, 4096, size_t{64} << 20);
      out->resize(size + room);
      stream->next_out = reinterpret_cast<Bytef*>(out->data() + size);
      stream->avail_out = static_cast<uInt>(room);
      deflate(stream, flush);
      out->resize(size + room - stream->avail_out);
    } while (stream->avail_out == 0);
  } while (!content.empty());
  return segment;
}

void AppendZlibEnd(uint32_t adler32, std::string* out) {
  out->append("\x03\x00", 2);  // An empty final block with fixed codes.
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(adler32 >> shift));
}

uint32_t CombineAdler32(uint32_t adler32, const ZlibSegment& segment) {
  return static_cast<uint32_t>(
      adler32_combine(adler32, segment.adler32, static_cast<z_off_t>(segment.content_bytes)));
}

}  // namespace shardfeed
