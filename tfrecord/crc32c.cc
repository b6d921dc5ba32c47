#include "tfrecord/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace shardfeed {

uint32_t ExtendCrc32c(uint32_t crc, std::string_view bytes) {
  constexpr size_t kMaxCall = size_t{1} << 30;  // ISA-L counts bytes in an int.
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kMaxCall);
    // ISA-L's signature lacks a const; it only reads.
    state = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data())),
                        static_cast<int>(n), state);
    bytes.remove_prefix(n);
  }
  return ~state;
}

}  // namespace shardfeed
