// A Huffman table of a JPEG, and tables of what several of its codes in a row stand for. Format:
// ITU-T T.81, annexes C and F.2.2.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_JPEG_HUFFMAN_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_JPEG_HUFFMAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace shardfeed {

struct JpegHuffmanTable {
  // Codes up to this length are looked up at once, if they and their coefficient take no more than
  // kMaxSymbolBits: nearly all do.
  static constexpr int kLookupBits = 10;
  static constexpr int kMaxSymbolBits = 18;

  static constexpr int kEndOfBlock = 128;

  // A code and the coefficient behind it, in the bytes from the lowest: their bits together; 1 +
  // the zeros before the coefficient, or kEndOfBlock; the bits of the coefficient, which is 0 if
  // there are none; the bits of the code. 0: none.
  using Symbol = uint32_t;
  static int BitsOf(Symbol symbol) { return static_cast<int>(symbol & 0xff); }
  static int AdvanceOf(Symbol symbol) { return static_cast<int>(symbol >> 8 & 0xff); }
  static int SizeOf(Symbol symbol) { return static_cast<int>(symbol >> 16 & 0xff); }
  static int CodeLengthOf(Symbol symbol) { return static_cast<int>(symbol >> 24); }

  bool is_dc = false;
  std::string source;  // the counts and symbols it is made from
  // By the next kLookupBits bits; 0: a longer one.
  std::array<Symbol, 1 << kLookupBits> lookup;
  // Of the codes of each length: one more than the last, filled up to 16 bits; what to add to a
  // code to have the index of its symbol.
  std::array<uint32_t, 17> limit;
  std::array<int32_t, 17> offset;

  // False: no such table can be. For DC or AC, the same for all that are built in it.
  bool Build(std::string_view counts_and_symbols, bool is_dc);
  // Of the next 16 bits, whether or not `lookup` has it. 0: they begin with no code.
  Symbol Find(uint32_t bits) const;
  Symbol Next(uint32_t bits) const {
    const Symbol symbol = lookup[bits >> (16 - kLookupBits)];
    return symbol != 0 ? symbol : Find(bits);
  }

 private:
  Symbol SymbolOf(int length, int symbol) const;
};

// The 64 bits from that byte on, the first of them the highest.
inline uint64_t LoadJpegBits(const uint8_t* at) {
  uint64_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return __builtin_bswap64(bits);
}

// The coefficient of that symbol, with which `bits`, from the highest on, begin; 0 if it has none.
inline int32_t JpegCoefficient(uint64_t bits, JpegHuffmanTable::Symbol symbol) {
  // The values of each size are, in order of their bits, the negative ones and then the positive
  // ones: the bits of a negative one are those of its magnitude, inverted.
  bits <<= JpegHuffmanTable::CodeLengthOf(symbol);
  const int64_t negative = ~static_cast<int64_t>(bits) >> 63;  // all ones, or zero
  const uint64_t magnitude =
      (bits ^ static_cast<uint64_t>(negative)) >> 1 >> (63 - JpegHuffmanTable::SizeOf(symbol));
  return static_cast<int32_t>((magnitude ^ static_cast<uint64_t>(negative)) -
                              static_cast<uint64_t>(negative));
}

// How far the symbols of AC coefficients go that end within the next n bits, for each n up to
// `bits`: those of n bits stand from 2^n on in `runs`, by these bits, 2^(bits + 1) in all.
// Format::Of(used, advance, end) is what a symbol counts, of so many bits, that goes so many
// coefficients on or ends the block; runs are sums of that. 0: no symbol ends there.
template <typename Format>
void BuildJpegRuns(const JpegHuffmanTable& table, int bits, typename Format::Run* runs) {
  for (int n = 0; n <= bits; ++n) {
    typename Format::Run* const of_n = runs + (size_t{1} << n);
    for (uint32_t i = 0; i < 1U << n;) {
      const JpegHuffmanTable::Symbol symbol = table.Next(i << (16 - n));
      const int used = JpegHuffmanTable::BitsOf(symbol);
      if (symbol == 0 || used > n) {
        of_n[i++] = 0;
        continue;
      }
      const uint32_t rests = 1U << (n - used);
      // What a symbol leaves of the bits has its run already.
      const typename Format::Run* const of_rest = runs + rests;
      const bool end = JpegHuffmanTable::AdvanceOf(symbol) >= JpegHuffmanTable::kEndOfBlock;
      const auto first = Format::Of(used, end ? 0 : JpegHuffmanTable::AdvanceOf(symbol), end);
      for (uint32_t rest = 0; rest < rests; ++rest) {
        // Behind an end of a block stands another block.
        of_n[i + rest] = static_cast<typename Format::Run>(first + (end ? 0 : of_rest[rest]));
      }
      i += rests;
    }
  }
}

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_HUFFMAN_H_
