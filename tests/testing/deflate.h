// Compressed data in the form that other programs write.

#ifndef SHARDFEED_TESTS_TESTING_DEFLATE_H_
#define SHARDFEED_TESTS_TESTING_DEFLATE_H_

#include <zlib.h>

#include <string>
#include <string_view>

namespace shardfeed::testing {

// Compresses with zlib, as other programs do. `window_bits` 31: gzip, 15: zlib. A lower
// `memory_level` makes smaller blocks.
inline std::string Deflate(std::string_view content, int window_bits, int memory_level = 9,
                           int strategy = Z_DEFAULT_STRATEGY) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, window_bits, memory_level, strategy);
  std::string out(deflateBound(&stream, content.size()) + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = content.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TESTING_DEFLATE_H_
