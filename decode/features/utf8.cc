#include "decode/features/utf8.h"

#include <cstdint>

#include "base/utf8.h"

namespace shardfeed {
namespace {

// The number of bytes of the character at the start of `rest`, or 0 if it is invalid (RFC 3629,
// section 4).
size_t CharacterSize(std::string_view rest) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(rest[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || rest.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  const bool fine = first == 0xe0   ? second >= 0xa0
                    : first == 0xed ? second < 0xa0
                    : first == 0xf0 ? second >= 0x90
                    : first == 0xf4 ? second < 0x90
                                    : true;
  return fine ? size : 0;
}

}  // namespace

size_t FindInvalidUtf8(std::string_view bytes) {
  if (IsUtf8(bytes)) return bytes.npos;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t size = CharacterSize(bytes.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return bytes.npos;
}

}  // namespace shardfeed
