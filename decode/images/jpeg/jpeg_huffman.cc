#include "decode/images/jpeg/jpeg_huffman.h"

#include <algorithm>

namespace shardfeed {

bool JpegHuffmanTable::Build(std::string_view counts_and_symbols, bool dc) {
  if (counts_and_symbols.empty()) return false;
  if (counts_and_symbols == source) return true;
  is_dc = dc;
  source.clear();
  lookup.fill(0);
  limit.fill(0);
  uint32_t code = 0;
  size_t index = 16;  // index of the next symbol in `counts_and_symbols`
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    const auto count = static_cast<uint8_t>(counts_and_symbols[length - 1]);
    // A code must not be all ones.
    if (count > 0 && code + count >= uint32_t{1} << length) return false;
    offset[length] = static_cast<int32_t>(index) - static_cast<int32_t>(code);
    for (int i = 0; i < count; ++i, ++index, ++code) {
      const auto symbol = static_cast<uint8_t>(counts_and_symbols[index]);
      if (is_dc && symbol > 15) return false;
      const int free = kLookupBits - length;
      if (free < 0 || length + (symbol & 15) > kMaxSymbolBits) continue;
      std::fill_n(&lookup[code << free], 1 << free, SymbolOf(length, symbol));
    }
    limit[length] = code << (16 - length);
  }
  source = counts_and_symbols;
  return true;
}

JpegHuffmanTable::Symbol JpegHuffmanTable::SymbolOf(int length, int symbol) const {
  const int size = symbol & 15;
  const int zeros = symbol >> 4;
  // An AC symbol without a coefficient means 16 zeros if it has 15 zeros; otherwise it ends the
  // block.
  const int advance = size == 0 && zeros < 15 && !is_dc ? kEndOfBlock : 1 + zeros;
  return static_cast<uint32_t>(length + size) | static_cast<uint32_t>(advance) << 8 |
         static_cast<uint32_t>(size) << 16 | static_cast<uint32_t>(length) << 24;
}

JpegHuffmanTable::Symbol JpegHuffmanTable::Find(uint32_t bits) const {
  int length = 1;
  if (bits < limit[kLookupBits]) {
    while (bits >= limit[length]) ++length;
  } else {
    // This is nearly always a code that is too long for `lookup`. Its length is counted without
    // branches.
    length += kLookupBits;
    for (int l = kLookupBits + 1; l <= 16; ++l) length += bits >= limit[l] ? 1 : 0;
    if (length > 16) return 0;
  }
  const int32_t index = offset[length] + static_cast<int32_t>(bits >> (16 - length));
  return SymbolOf(length, static_cast<uint8_t>(source[static_cast<size_t>(index)]));
}

}  // namespace shardfeed
