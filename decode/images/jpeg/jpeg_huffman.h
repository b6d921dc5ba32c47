// A Huffman table of a JPEG, and tables that decode several of its codes at once. Format: ITU-T
// T.81, annexes C and F.2.2.

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
  // Codes up to this length are found by one lookup, if code and coefficient together take at most
  // kMaxSymbolBits. Nearly all do.
  static constexpr int kLookupBits = 10;
  static constexpr int kMaxSymbolBits = 18;

  static constexpr int kEndOfBlock = 128;

  // A code and the coefficient that follows it, as four bytes from the lowest: the number of bits
  // of both together; 1 + the number of zeros before the coefficient, or kEndOfBlock; the number of
  // bits of the coefficient, which is 0 if there are none; the number of bits of the code. The
  // value 0 means no symbol.
  using Symbol = uint32_t;
  static int BitsOf(Symbol symbol) { return static_cast<int>(symbol & 0xff); }
  static int AdvanceOf(Symbol symbol) { return static_cast<int>(symbol >> 8 & 0xff); }
  static int SizeOf(Symbol symbol) { return static_cast<int>(symbol >> 16 & 0xff); }
  static int CodeLengthOf(Symbol symbol) { return static_cast<int>(symbol >> 24); }

  bool is_dc = false;
  std::string source;  // the counts and symbols that it was built from
  // Symbols by the next kLookupBits bits; 0 for longer ones.
  std::array<Symbol, 1 << kLookupBits> lookup;
  // For each code length: the last code plus one, left-aligned to 16 bits, and what to add to a
  // code to get the index of its symbol.
  std::array<uint32_t, 17> limit;
  std::array<int32_t, 17> offset;

  // Builds a table for DC or AC, always the same kind for one object. Returns false if the table is
  // invalid.
  bool Build(std::string_view counts_and_symbols, bool is_dc);
  // The symbol at the start of the next 16 bits, without `lookup`; 0 if they begin with no code.
  Symbol Find(uint32_t bits) const;
  Symbol Next(uint32_t bits) const {
    const Symbol symbol = lookup[bits >> (16 - kLookupBits)];
    return symbol != 0 ? symbol : Find(bits);
  }

 private:
  Symbol SymbolOf(int length, int symbol) const;
};

// The 64 bits from `at` on, with the first bit as the highest.
inline uint64_t LoadJpegBits(const uint8_t* at) {
  uint64_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return __builtin_bswap64(bits);
}

// The coefficient of `symbol`, whose code and coefficient are at the top of `bits`; 0 if it has
// none.
inline int32_t JpegCoefficient(uint64_t bits, JpegHuffmanTable::Symbol symbol) {
  // Among the values of a size, in order of their bits, the negative ones come first: the bits of a
  // negative value are those of its magnitude, inverted.
  bits <<= JpegHuffmanTable::CodeLengthOf(symbol);
  const int64_t negative = ~static_cast<int64_t>(bits) >> 63;  // all ones, or zero
  const uint64_t magnitude =
      (bits ^ static_cast<uint64_t>(negative)) >> 1 >> (63 - JpegHuffmanTable::SizeOf(symbol));
  return static_cast<int32_t>((magnitude ^ static_cast<uint64_t>(negative)) -
                              static_cast<uint64_t>(negative));
}

// Builds a table of runs: the sums over all symbols of AC coefficients that end within the next n
// bits, for each n up to `bits`. Runs of n bits start at index 2^n in `runs` and are indexed by
// these bits; there are 2^(bits + 1) entries in all. Format::Of(used, advance, end) is the value of
// one symbol that takes `used` bits and advances by `advance` coefficients or ends the block. A run
// of 0 means that no symbol ends there.
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
      // The run of the remaining bits is known already.
      const typename Format::Run* const of_rest = runs + rests;
      const bool end = JpegHuffmanTable::AdvanceOf(symbol) >= JpegHuffmanTable::kEndOfBlock;
      const auto first = Format::Of(used, end ? 0 : JpegHuffmanTable::AdvanceOf(symbol), end);
      for (uint32_t rest = 0; rest < rests; ++rest) {
        // After the end of a block, another block begins.
        of_n[i + rest] = static_cast<typename Format::Run>(first + (end ? 0 : of_rest[rest]));
      }
      i += rests;
    }
  }
}

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_HUFFMAN_H_
