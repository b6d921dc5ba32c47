#include "tfrecord/inflate_blocks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/little_endian.h"

namespace shardfeed {
namespace {

// Number of blocks inflated side by side: enough to hide the latency, with tables that fit into the
// first-level cache.
constexpr int kLanes = 6;
// Number of literals decoded from one load of 57 bits or more.
constexpr int kGroup = 4;

// With more than one copy per kBytesPerMatch bytes of content, libdeflate is faster. Copies are
// granted in advance for the first kBytesOfAnyKind bytes, and kMatchesOfAnyContent for any content.
constexpr ptrdiff_t kBytesPerMatch = 40;
constexpr ptrdiff_t kBytesOfAnyKind = 256 << 10;
constexpr ptrdiff_t kMatchesOfAnyContent = 256;

constexpr int kMaxCodeBits = 15;
constexpr int kLiteralTableBits = 10;
constexpr int kDistanceTableBits = 8;
constexpr int kLengthTableBits = 7;  // The code-length code has no longer codes.
static_assert(kGroup * kLiteralTableBits <= 57);

constexpr int kLiterals = 256;
constexpr int kEndOfBlock = 256;
constexpr int kMaxSymbols = 288;

// A table entry holds the code's length in its lowest bits, which thus serve as a shift count; the
// symbol (minus 256 for lengths) in its second byte; and flags above. The sum of a group's entries
// therefore gives the total length and shows whether any of them is flagged.
constexpr uint32_t kLengthMask = 63;
constexpr uint32_t kNotLiteral = 1 << 24;
constexpr uint32_t kLong = 1 << 25;  // The code is longer than the table's index, or invalid.
constexpr uint32_t kFlags = 0xff000000;
static_assert(kGroup * kMaxCodeBits <= kLengthMask && kGroup * (kNotLiteral | kLong) <= kFlags);
constexpr uint32_t SymbolOf(uint32_t entry) { return entry >> 8 & 0xff; }

// A canonical Huffman code, with a table for short codes, and counts and symbols for long ones.
template <int kTableBits>
struct HuffmanCode {
  std::array<uint32_t, 1 << kTableBits> table;
  // Number of codes of each length.
  std::array<uint16_t, kMaxCodeBits + 1> count;
  // Symbols in the order of their codes.
  std::array<uint16_t, kMaxSymbols> symbols;
};

// Builds a code from the length of each symbol's code. `literals` says that the symbols are
// literals and lengths. Returns false if the lengths are oversubscribed, or incomplete; an
// incomplete code is allowed only if it has no symbol, or one of a single bit, as in a block with
// at most one distance (section 3.2.7).
template <int kTableBits>
bool BuildCode(absl::Span<const uint8_t> lengths, bool literals, HuffmanCode<kTableBits>* code) {
  code->count.fill(0);
  for (const uint8_t length : lengths) ++code->count[length];
  const size_t used = lengths.size() - code->count[0];
  code->count[0] = 0;
  // Index in `symbols` of the next symbol of each length.
  std::array<uint16_t, kMaxCodeBits + 2> next;
  next[1] = 0;
  int unused = 1;
  for (int bits = 1; bits <= kMaxCodeBits; ++bits) {
    next[bits + 1] = next[bits] + code->count[bits];
    unused = 2 * unused - code->count[bits];
    if (unused < 0) return false;
  }
  if (unused > 0 && (used > 1 || code->count[1] != used)) return false;
  for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
    if (lengths[symbol] > 0) code->symbols[next[lengths[symbol]]++] = static_cast<uint16_t>(symbol);
  }
  // Start with the table for codes of no bits, and double it for each further bit: entries of
  // shorter codes do not depend on that bit and are the same in both halves.
  uint32_t* const table = code->table.data();
  table[0] = kNotLiteral | kLong;
  // The next code with its first bit lowest, as in the data.
  uint32_t reversed = 0;
  size_t at = 0;
  for (uint32_t bits = 1; bits <= kTableBits; ++bits) {
    std::copy_n(table, size_t{1} << (bits - 1), table + (size_t{1} << (bits - 1)));
    for (int i = 0; i < code->count[bits]; ++i) {
      const uint32_t symbol = code->symbols[at++];
      const uint32_t entry = literals && symbol >= kLiterals
                                 ? bits | (symbol - kLiterals) << 8 | kNotLiteral
                                 : bits | symbol << 8;
      table[reversed] = entry;
      uint32_t bit = 1U << (bits - 1);
      for (; (reversed & bit) != 0; bit >>= 1) reversed ^= bit;
      reversed |= bit;
    }
  }
  return true;
}

// Bits loaded from the data; the next one is the lowest.
struct LoadedBits {
  uint64_t bits;
  int used = 0;

  uint32_t Take(int count) {
    const uint64_t value = bits & ((uint64_t{1} << count) - 1);
    bits >>= count;
    used += count;
    return static_cast<uint32_t>(value);
  }
};

// Takes and returns the next symbol; lengths are 256 and above. Returns -1 if there is no such
// code.
template <int kTableBits>
int TakeSymbol(const HuffmanCode<kTableBits>& code, LoadedBits* loaded) {
  const uint32_t entry = code.table[loaded->bits & (code.table.size() - 1)];
  if ((entry & kLong) == 0) {
    loaded->Take(entry & kLengthMask);
    return static_cast<int>(SymbolOf(entry) + ((entry & kNotLiteral) != 0 ? kLiterals : 0));
  }
  // Codes of one length are consecutive and follow those of the next shorter length.
  uint32_t value = 0;
  uint32_t first = 0;
  uint32_t at = 0;
  for (int length = 1; length <= kMaxCodeBits; ++length) {
    value = value << 1 | loaded->Take(1);
    const uint32_t count = code.count[length];
    if (value - first < count) return code.symbols[at + (value - first)];
    at += count;
    first = (first + count) << 1;
  }
  return -1;
}

// The base value of a length or distance symbol, and its number of extra bits (section 3.2.5).
struct Range {
  uint16_t base;
  uint8_t bits;
};
constexpr std::array<Range, 29> kLengths = {
    {{3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
     {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
     {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}}};
constexpr std::array<Range, 30> kDistances = {
    {{1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},
     {9, 2},     {13, 2},    {17, 3},    {25, 3},     {33, 4},     {49, 4},
     {65, 5},    {97, 5},    {129, 6},   {193, 6},    {257, 7},    {385, 7},
     {513, 8},   {769, 8},   {1025, 9},  {1537, 9},   {2049, 10},  {3073, 10},
     {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}}};
constexpr std::array<uint8_t, 19> kLengthsOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                   11, 4,  12, 3, 13, 2, 14, 1, 15};

// A pending copy of `length` bytes to `to`, from `distance` bytes before it.
struct Match {
  char* to;
  uint16_t length;
  uint16_t distance;
};

// The state of a decoder that inflates one block after another.
struct alignas(64) Lane {
  HuffmanCode<kLiteralTableBits> literals;
  HuffmanCode<kDistanceTableBits> distances;
  std::vector<Match> matches;
  // Index of the current stretch.
  size_t stretch = 0;
  bool in_last_block = false;
  bool has_fixed_codes = false;
};

// The position of a lane: a bit of the data, and the address of the next content byte.
struct Cursor {
  uint64_t bit = 0;
  char* out = nullptr;
};

enum class Step { kGo, kDone, kBad };

class BlocksInflater {
 public:
  BlocksInflater(std::string_view data, absl::Span<const DeflateBlock> blocks, bool ends_stream,
                 absl::Span<char> dst, size_t dictionary)
      : data_(data.data()),
        end_bit_(8 * uint64_t{data.size()}),
        ends_stream_(ends_stream),
        dictionary_(dst.data()),
        stretches_(blocks.size() - 1),
        matches_left_(std::min<ptrdiff_t>(dst.size() - dictionary, kBytesOfAnyKind) /
                          kBytesPerMatch +
                      kMatchesOfAnyContent) {
    for (size_t i = 0; i < stretches_.size(); ++i) {
      stretches_[i].begin = {blocks[i].bit, dst.data() + dictionary + blocks[i].offset};
      stretches_[i].end = {blocks[i + 1].bit, dst.data() + dictionary + blocks[i + 1].offset};
    }
  }

  bool Run(absl::Span<Lane> lanes) {
    std::array<Lane*, kLanes> busy;
    std::array<Cursor, kLanes> cursors;
    int n = 0;
    for (Lane& lane : lanes) {
      lane.matches.clear();
      busy[n] = &lane;
      lane.has_fixed_codes = false;
      const Step step =
          EnterStretch(lane, &cursors[n]) ? EnterBlock(lane, &cursors[n]) : Step::kDone;
      if (step == Step::kBad) return false;
      if (step == Step::kGo) ++n;
    }
    while (n > 0) {
      Step step = Step::kGo;
      const int i = Decode(n, busy.data(), cursors.data(), &step);
      if (step == Step::kBad) return false;
      --n;
      std::swap(busy[i], busy[n]);
      std::swap(cursors[i], cursors[n]);
    }
    return true;
  }

 private:
  // The data between two of the given block starts.
  struct Stretch {
    Cursor begin;
    Cursor end;
    const std::vector<Match>* matches = nullptr;
    size_t first_match = 0;
    size_t end_match = 0;
    bool decoded = false;
  };

  // Returns at least 57 bits from `bit` <= end_bit_ on. Past the end, they are bits of the slack.
  uint64_t BitsFrom(uint64_t bit) const {
    return LoadLittleEndian<uint64_t>(data_ + (bit >> 3)) >> (bit & 7);
  }

  // Decodes in `n` lanes until one of them is done or finds bad data. Returns the index of that
  // one.
  int Decode(int n, Lane* const* lanes, Cursor* cursors, Step* step) {
    switch (n) {
      case 1:
        return DecodeSideBySide<1>(lanes, cursors, step);
      case 2:
        return DecodeSideBySide<2>(lanes, cursors, step);
      case 3:
        return DecodeSideBySide<3>(lanes, cursors, step);
      case 4:
        return DecodeSideBySide<4>(lanes, cursors, step);
      case 5:
        return DecodeSideBySide<5>(lanes, cursors, step);
      default:
        return DecodeSideBySide<kLanes>(lanes, cursors, step);
    }
  }

  template <int n>
  int DecodeSideBySide(Lane* const* lanes, Cursor* cursors, Step* step) {
    // Copy the state, so that the compiler can keep it in registers.
    std::array<uint64_t, n> bit;
    std::array<char*, n> out;
    std::array<const uint32_t*, n> table;
    for (int i = 0; i < n; ++i) {
      bit[i] = cursors[i].bit;
      out[i] = cursors[i].out;
      table[i] = lanes[i]->literals.table.data();
    }
    // Called for a lane whose next group has symbols other than literals, or is too close to an end
    // to be decoded without bounds checks.
    const auto decode_symbols = [&](int i) {
      Cursor cursor = {bit[i], out[i]};
      *step = DecodeSymbols(*lanes[i], &cursor);
      bit[i] = cursor.bit;
      out[i] = cursor.out;
      return *step == Step::kGo;
    };
    int stopped = -1;
    while (stopped < 0) {
      uint64_t groups = UINT64_MAX;
      int least = 0;
      for (int i = 0; i < n; ++i) {
        const uint64_t safe = SafeGroups(*lanes[i], {bit[i], out[i]});
        if (safe < groups) {
          groups = safe;
          least = i;
        }
      }
      if (groups == 0 && !decode_symbols(least)) stopped = least;
      for (; groups > 0; --groups) {
#pragma GCC unroll 8
        for (int i = 0; i < n; ++i) {
          uint64_t bits = BitsFrom(bit[i]);
          uint64_t sum = 0;
#pragma GCC unroll 8
          for (int k = 0; k < kGroup; ++k) {
            const uint64_t entry = table[i][bits & ((1 << kLiteralTableBits) - 1)];
            bits >>= entry & kLengthMask;
            sum += entry;
            out[i][k] = static_cast<char>(entry >> 8);
          }
          if ((sum & kFlags) == 0) [[likely]] {
            bit[i] += sum & kLengthMask;
            out[i] += kGroup;
            continue;
          }
          if (!decode_symbols(i)) {
            stopped = i;
            break;
          }
          groups = std::min(groups, SafeGroups(*lanes[i], {bit[i], out[i]}) + 1);
        }
        if (stopped >= 0) break;
      }
    }
    for (int i = 0; i < n; ++i) cursors[i] = {bit[i], out[i]};
    return stopped;
  }

  // Returns the number of groups of literals that can be decoded without bounds checks.
  uint64_t SafeGroups(const Lane& lane, const Cursor& at) const {
    if (at.bit > end_bit_) return 0;
    return std::min<uint64_t>((stretches_[lane.stretch].end.out - at.out) / kGroup,
                              (end_bit_ - at.bit) / (uint64_t{kGroup} * kLiteralTableBits));
  }

  // Decodes up to kGroup symbols, but none after the first that is not a literal. At the end of a
  // block, enters the next one.
  [[gnu::noinline]] Step DecodeSymbols(Lane& lane, Cursor* at) {
    char* const end = stretches_[lane.stretch].end.out;
    for (int k = 0; k < kGroup; ++k) {
      if (at->bit > end_bit_) return Step::kBad;
      // A symbol takes at most 15 + 5 + 15 + 13 bits.
      LoadedBits loaded = {BitsFrom(at->bit)};
      const int symbol = TakeSymbol(lane.literals, &loaded);
      if (symbol >= 0 && symbol < kLiterals) {
        if (at->out == end) return Step::kBad;
        *at->out++ = static_cast<char>(symbol);
        at->bit += loaded.used;
        continue;
      }
      if (symbol == kEndOfBlock) {
        at->bit += loaded.used;
        return EnterBlock(lane, at);
      }
      const size_t which = symbol - kEndOfBlock - 1;
      if (symbol < 0 || which >= kLengths.size()) return Step::kBad;
      const size_t length = kLengths[which].base + loaded.Take(kLengths[which].bits);
      const int distance_symbol = TakeSymbol(lane.distances, &loaded);
      if (distance_symbol < 0 || static_cast<size_t>(distance_symbol) >= kDistances.size()) {
        return Step::kBad;
      }
      const Range& range = kDistances[distance_symbol];
      const size_t distance = range.base + loaded.Take(range.bits);
      if (length > static_cast<size_t>(end - at->out) ||
          distance > static_cast<size_t>(at->out - dictionary_)) {
        return Step::kBad;
      }
      if (--matches_left_ < 0) return Step::kBad;
      lane.matches.push_back(
          {at->out, static_cast<uint16_t>(length), static_cast<uint16_t>(distance)});
      at->out += length;
      at->bit += loaded.used;
      return Step::kGo;
    }
    return Step::kGo;
  }

  // Enters the next unclaimed stretch, but not yet its first block. Returns false if there is none.
  bool EnterStretch(Lane& lane, Cursor* at) {
    if (next_stretch_ == stretches_.size()) return false;
    lane.stretch = next_stretch_++;
    lane.in_last_block = false;
    Stretch& stretch = stretches_[lane.stretch];
    stretch.matches = &lane.matches;
    stretch.first_match = stretch.end_match = lane.matches.size();
    *at = stretch.begin;
    return true;
  }

  // Returns whether the lane's stretch ends at the expected position.
  bool EndsWell(const Lane& lane, const Cursor& at) const {
    const bool last = ends_stream_ && lane.stretch + 1 == stretches_.size();
    return at.out == stretches_[lane.stretch].end.out && lane.in_last_block == last;
  }

  // Enters the block that starts at `at`, or the first one after it that has symbols.
  Step EnterBlock(Lane& lane, Cursor* at) {
    while (true) {
      Stretch& stretch = stretches_[lane.stretch];
      if (lane.in_last_block) at->bit = (at->bit + 7) & ~uint64_t{7};
      if (at->bit == stretch.end.bit) {
        if (!EndsWell(lane, *at)) return Step::kBad;
        stretch.end_match = lane.matches.size();
        stretch.decoded = true;
        CopyMatches();
        matches_left_ += (stretch.end.out - stretch.begin.out) / kBytesPerMatch;
        if (!EnterStretch(lane, at)) return Step::kDone;
        continue;
      }
      if (at->bit > stretch.end.bit || lane.in_last_block) return Step::kBad;
      LoadedBits loaded = {BitsFrom(at->bit)};
      lane.in_last_block = loaded.Take(1) != 0;
      const uint32_t type = loaded.Take(2);
      at->bit += 3;
      switch (type) {
        case 0:
          if (!CopyStored(stretch, at)) return Step::kBad;
          break;
        case 1:
          return FixedCodes(lane) ? Step::kGo : Step::kBad;
        case 2:
          return ReadCodes(lane, at) ? Step::kGo : Step::kBad;
        default:
          return Step::kBad;
      }
    }
  }

  // Copies the content of a stored block (section 3.2.4).
  bool CopyStored(const Stretch& stretch, Cursor* at) const {
    constexpr size_t kHeader = 4;
    const uint64_t header = (at->bit + 7) / 8;
    const uint64_t end = end_bit_ / 8;
    if (header > end || end - header < kHeader) return false;
    const auto size = LoadLittleEndian<uint16_t>(data_ + header);
    const auto inverse = LoadLittleEndian<uint16_t>(data_ + header + 2);
    if ((size ^ inverse) != 0xffff || size > end - header - kHeader ||
        size > stretch.end.out - at->out) {
      return false;
    }
    std::memcpy(at->out, data_ + header + kHeader, size);
    at->out += size;
    at->bit = 8 * (header + kHeader + size);
    return true;
  }

  // Sets up the fixed codes (section 3.2.6).
  static bool FixedCodes(Lane& lane) {
    if (lane.has_fixed_codes) return true;
    lane.has_fixed_codes = true;
    std::array<uint8_t, kMaxSymbols> lengths;
    for (size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    }
    std::array<uint8_t, 32> distances;
    distances.fill(5);
    return BuildCode(lengths, /*literals=*/true, &lane.literals) &&
           BuildCode(distances, /*literals=*/false, &lane.distances);
  }

  // Reads dynamic codes (section 3.2.7).
  bool ReadCodes(Lane& lane, Cursor* at) const {
    if (at->bit > end_bit_) return false;
    lane.has_fixed_codes = false;
    LoadedBits head = {BitsFrom(at->bit)};
    const size_t literals = head.Take(5) + 257;
    const size_t distances = head.Take(5) + 1;
    const size_t code_lengths = head.Take(4) + 4;
    at->bit += head.used;
    if (literals > 286 || distances > kDistances.size() || at->bit > end_bit_) return false;
    std::array<uint8_t, kLengthsOrder.size()> code = {};
    LoadedBits loaded = {BitsFrom(at->bit)};
    for (size_t i = 0; i < code_lengths; ++i) {
      code[kLengthsOrder[i]] = static_cast<uint8_t>(loaded.Take(3));
    }
    at->bit += loaded.used;
    HuffmanCode<kLengthTableBits> code_of_lengths;
    if (!BuildCode(code, /*literals=*/false, &code_of_lengths)) return false;
    std::array<uint8_t, 286 + kDistances.size()> lengths;
    const size_t all = literals + distances;
    for (size_t i = 0; i < all;) {
      if (at->bit > end_bit_) return false;
      loaded = {BitsFrom(at->bit)};
      const int symbol = TakeSymbol(code_of_lengths, &loaded);
      size_t times = 1;
      uint8_t length = 0;
      if (symbol < 0) return false;
      if (symbol < 16) {
        length = static_cast<uint8_t>(symbol);
      } else if (symbol == 16) {
        if (i == 0) return false;
        length = lengths[i - 1];
        times = 3 + loaded.Take(2);
      } else if (symbol == 17) {
        times = 3 + loaded.Take(3);
      } else {
        times = 11 + loaded.Take(7);
      }
      if (times > all - i) return false;
      std::fill_n(lengths.begin() + i, times, length);
      i += times;
      at->bit += loaded.used;
    }
    const absl::Span<const uint8_t> both(lengths.data(), all);
    return lengths[kEndOfBlock] > 0 &&
           BuildCode(both.first(literals), /*literals=*/true, &lane.literals) &&
           BuildCode(both.subspan(literals), /*literals=*/false, &lane.distances);
  }

  // Makes pending copies in the order of the content, so that their sources are complete.
  void CopyMatches() {
    for (; copied_ < stretches_.size() && stretches_[copied_].decoded; ++copied_) {
      const Stretch& stretch = stretches_[copied_];
      for (size_t i = stretch.first_match; i < stretch.end_match; ++i) {
        const Match& match = (*stretch.matches)[i];
        const char* from = match.to - match.distance;
        if (match.distance >= match.length) {
          std::memcpy(match.to, from, match.length);
        } else {
          for (size_t k = 0; k < match.length; ++k) match.to[k] = from[k];
        }
      }
    }
  }

  const char* const data_;
  const uint64_t end_bit_;
  const bool ends_stream_;
  const char* const dictionary_;
  std::vector<Stretch> stretches_;
  size_t next_stretch_ = 0;
  // Number of stretches whose copies have been made.
  size_t copied_ = 0;
  ptrdiff_t matches_left_;
};

}  // namespace

bool InflateBlocks(std::string_view data, absl::Span<const DeflateBlock> blocks, bool ends_stream,
                   absl::Span<char> dst, size_t dictionary) {
  const size_t content = dst.size() - dictionary;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].bit > 8 * uint64_t{data.size()} || blocks[i].offset > content ||
        (i > 0 &&
         (blocks[i].bit <= blocks[i - 1].bit || blocks[i].offset < blocks[i - 1].offset))) {
      return false;
    }
  }
  if (blocks.size() < 2 || blocks.front().offset != 0 || blocks.back().offset != content) {
    return false;
  }
  thread_local std::array<Lane, kLanes> lanes;
  return BlocksInflater(data, blocks, ends_stream, dst, dictionary).Run(absl::MakeSpan(lanes));
}

}  // namespace shardfeed
