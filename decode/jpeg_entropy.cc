#include "decode/jpeg_entropy.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace shardfeed {
namespace {

// Where the k-th coefficient of the zigzag stands, row by row. What is behind the 64th comes from
// the ends of blocks, which write a zero there, where it was zero before, and from damaged blocks.
constexpr std::array<uint8_t, 64 + 128 + 16> kNaturalOrder = [] {
  std::array<uint8_t, 64 + 128 + 16> order;
  order.fill(63);
  int row = 0;
  int column = 0;
  for (int k = 0; k < 64; ++k) {
    order[k] = static_cast<uint8_t>(8 * row + column);
    // Diagonals: up and down in turn.
    if ((row + column) % 2 == 0) {
      if (column == 7) {
        ++row;
      } else {
        ++column;
        if (row > 0) --row;
      }
    } else if (row == 7) {
      ++column;
    } else {
      ++row;
      if (column > 0) --column;
    }
  }
  return order;
}();

uint64_t LoadBigEndian(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return __builtin_bswap64(value);
}

// Whether one of the 8 bytes is 0xff.
bool HasFf(uint64_t bytes) {
  return ((~bytes - 0x0101010101010101) & bytes & 0x8080808080808080) != 0;
}

}  // namespace

bool JpegEntropyDecoder::Table::Build(std::string_view counts_and_symbols, bool dc) {
  if (counts_and_symbols.empty()) return false;
  if (counts_and_symbols == source) return true;
  is_dc = dc;
  run_bits = 0;
  source.clear();
  lookup.fill(0);
  limit.fill(0);
  uint32_t code = 0;
  size_t index = 16;  // of the next symbol in `counts_and_symbols`
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    const auto count = static_cast<uint8_t>(counts_and_symbols[length - 1]);
    // No code is all ones.
    if (count > 0 && code + count >= uint32_t{1} << length) return false;
    offset[length] = static_cast<int32_t>(index) - static_cast<int32_t>(code);
    for (int i = 0; i < count; ++i, ++index, ++code) {
      const auto symbol = static_cast<uint8_t>(counts_and_symbols[index]);
      if (is_dc && symbol > 15) return false;
      const int free = kLookupBits - length;
      if (free < 0 || length + (symbol & 15) > kMaxSymbolBits) continue;
      std::fill_n(&lookup[code << free], 1 << free, EntryOf(length, symbol));
    }
    limit[length] = code << (16 - length);
  }
  source = counts_and_symbols;
  return true;
}

void JpegEntropyDecoder::Table::BuildRuns(int bits) {
  // Of n bits from 2^n on, for each n: what a symbol leaves of them has its run already.
  std::array<uint16_t, 2 << kMaxRunBits> of_bits;
  for (int n = 0; n <= bits; ++n) {
    uint16_t* const of_n = &of_bits[size_t{1} << n];
    for (uint32_t i = 0; i < 1U << n;) {
      const uint32_t entry =
          lookup[n < kLookupBits ? i << (kLookupBits - n) : i >> (n - kLookupBits)];
      const uint32_t used = entry & 0xff;
      if (entry == 0 || used > static_cast<uint32_t>(n)) {
        of_n[i++] = 0;
        continue;
      }
      const uint32_t rests = 1U << (n - used);
      const uint16_t* const of_rest = &of_bits[rests];
      const uint32_t advance = entry >> 8 & 0xff;
      const bool end = advance >= kEndOfBlock;
      const auto first = static_cast<uint16_t>(used | (end ? kEndOfRun : advance) << 4);
      for (uint32_t rest = 0; rest < rests; ++rest) {
        // Behind an end of a block stands another block.
        of_n[i + rest] = static_cast<uint16_t>(first + (end ? 0 : of_rest[rest]));
      }
      i += rests;
    }
  }
  std::copy_n(&of_bits[size_t{1} << bits], size_t{1} << bits, runs.begin());
  run_bits = bits;
}

uint32_t JpegEntropyDecoder::Table::EntryOf(int length, int symbol) const {
  const int size = symbol & 15;
  const int zeros = symbol >> 4;
  // Of the AC symbols without bits, the one with 15 zeros stands for 16, the others end the block.
  const int advance = size == 0 && zeros < 15 && !is_dc ? kEndOfBlock : 1 + zeros;
  return static_cast<uint32_t>(length + size) | static_cast<uint32_t>(advance) << 8 |
         static_cast<uint32_t>(size) << 16 | static_cast<uint32_t>(length) << 24;
}

uint32_t JpegEntropyDecoder::Table::Find(uint32_t bits) const {
  int length = 1;
  if (bits < limit[kLookupBits]) {
    while (bits >= limit[length]) ++length;
  } else {
    // Nearly always: a code too long for `lookup`. Its length is counted without branches.
    length += kLookupBits;
    for (int l = kLookupBits + 1; l <= 16; ++l) length += bits >= limit[l] ? 1 : 0;
    if (length > 16) return 0;
  }
  const auto index =
      static_cast<size_t>(offset[length] + static_cast<int32_t>(bits >> (16 - length)));
  return EntryOf(length, static_cast<uint8_t>(source[index]));
}

// Afterwards there are at least 56 bits.
inline void JpegEntropyDecoder::Bits::Refill() {
  if (end - at >= 8) [[likely]] {
    const uint64_t bytes = LoadBigEndian(at);
    if (!HasFf(bytes)) [[likely]] {
      // Bits of the byte that does not fit stand there, too: the next refill puts the same there.
      buffer |= bytes >> count;
      at += (63 - count) >> 3;
      count |= 56;
      return;
    }
  }
  RefillSlowly();
}

void JpegEntropyDecoder::Bits::RefillSlowly() {
  while (count < 56) {
    if (at == end || (*at == 0xff && (end - at < 2 || at[1] != 0))) {
      // The data ends here: zeros follow, in `buffer` already.
      count += 64;
      padding += 64;
      return;
    }
    buffer |= uint64_t{*at} << (56 - count);
    count += 8;
    at += *at == 0xff ? 2 : 1;
  }
}

// The values of each size are, in order of their bits, the negative ones and then the positive
// ones: the bits of a negative one are those of its magnitude, inverted.
inline int32_t JpegEntropyDecoder::Bits::Coefficient(int skip, int size) const {
  const uint64_t bits = buffer << skip;
  const int64_t negative = ~static_cast<int64_t>(bits) >> 63;  // all ones, or zero
  const uint64_t magnitude = (bits ^ static_cast<uint64_t>(negative)) >> 1 >> (63 - size);
  return static_cast<int32_t>((magnitude ^ static_cast<uint64_t>(negative)) -
                              static_cast<uint64_t>(negative));
}

// Those of a block behind its first one. False: the block is damaged.
inline bool JpegEntropyDecoder::SkipCoefficients(const Table& ac, Bits* bits) {
  uint32_t k = 1;
  while (true) {
    bits->Refill();
    for (int i = 0; i < 56 / kMaxRunBits; ++i) {
      const uint32_t run = ac.runs[bits->Peek(ac.run_bits)];
      const uint32_t next = k + (run >> 4);
      // A block may be complete within the run: then what follows is of the next one.
      if (run == 0 || (next > 63 && next - kEndOfRun > 63)) break;
      k = next;
      bits->Consume(static_cast<int>(run & 15));
      if (k > 63) return true;
    }
    if (bits->count < 32) continue;
    uint32_t symbol = ac.lookup[bits->Peek(kLookupBits)];
    if (symbol == 0) symbol = ac.Find(bits->Peek(16));
    if (symbol == 0) return false;
    k += symbol >> 8 & 0xff;
    bits->Consume(static_cast<int>(symbol & 0xff));
    if (k > 63) return k == 64 || k >= kEndOfBlock;
  }
}

template <bool kStore>
bool JpegEntropyDecoder::DecodeMcu(int16_t (*const* blocks)[64]) {
  Bits bits = bits_;
  for (int b = 0; b < num_blocks_; ++b) {
    const Block& block = blocks_[b];
    int16_t* const coefficients = kStore ? *blocks[b] : nullptr;
    bits.Refill();
    uint32_t entry = block.dc->lookup[bits.Peek(kLookupBits)];
    if (entry == 0) [[unlikely]] {
      entry = block.dc->Find(bits.Peek(16));
      if (entry == 0) return false;
    }
    // Wraps around in damaged data.
    uint32_t& last_dc = last_dc_[block.component];
    last_dc += static_cast<uint32_t>(bits.Coefficient(entry >> 24, entry >> 16 & 0xff));
    bits.Consume(entry & 0xff);
    if (kStore) coefficients[0] = static_cast<int16_t>(last_dc);

    const Table& ac = *block.ac;
    if (kStore ? block.mean_only && uses_runs_ : uses_runs_) {
      if (!SkipCoefficients(ac, &bits)) return false;
      continue;
    }
    int k = 1;
    const auto take = [&](uint32_t symbol) __attribute__((always_inline)) {
      k += static_cast<int>(symbol >> 8 & 0xff);
      if (kStore) {
        coefficients[kNaturalOrder[k - 1]] =
            static_cast<int16_t>(bits.Coefficient(symbol >> 24, symbol >> 16 & 0xff));
      }
      bits.Consume(symbol & 0xff);
      return k < 64;
    };
    // Decodes a symbol; false: the block is complete.
    const auto step = [&]() __attribute__((always_inline)) {
      const uint32_t symbol = ac.lookup[bits.Peek(kLookupBits)];
      if (symbol != 0) [[likely]]
        return take(symbol);
      bits.Refill();
      const uint32_t found = ac.Find(bits.Peek(16));
      if (found == 0) {
        k = 65;
        return false;
      }
      const bool more = take(found);
      bits.Refill();
      return more;
    };
    if (bits.count < 2 * kMaxSymbolBits) bits.Refill();
    if (step() && step()) {
      do {
        bits.Refill();
      } while (step() && step() && step());
    }
    if (k > 64 && k < kEndOfBlock) return false;
  }
  bits_ = bits;
  return bits.padding <= bits.count;
}

bool JpegEntropyDecoder::Start(std::string_view jpeg, const JpegLayout& layout) {
  jpeg_ = jpeg;
  num_blocks_ = 0;
  for (uint8_t c = 0; c < layout.frame.num_components; ++c) {
    Block block;
    block.component = c;
    for (bool is_dc : {true, false}) {
      const uint8_t number = is_dc ? layout.coding[c].dc : layout.coding[c].ac;
      Table& table = tables_[is_dc ? 0 : 1][number];
      if (!table.Build(layout.huffman[is_dc ? 0 : 1][number], is_dc)) return false;
      (is_dc ? block.dc : block.ac) = &table;
    }
    const JpegFrame::Component& component = layout.frame.components[c];
    const int n = layout.frame.num_components == 1 ? 1 : component.h * component.v;
    for (int i = 0; i < n; ++i) blocks_[num_blocks_++] = block;
  }
  restart_interval_ = layout.restart_interval;
  interval_end_ = restart_interval_ > 0 ? restart_interval_ : std::numeric_limits<uint64_t>::max();
  num_mcus_ = layout.num_mcus();
  next_ = 0;
  unwanted_ = 0;
  any_mean_only_ = false;
  run_bits_ = num_mcus_ < kMcusOfLargePicture ? kRunBits : kMaxRunBits;
  UseRuns(/*build=*/false);
  if (restart_interval_ > 0) restarts_.Start(jpeg, layout.scan_begin);
  StartInterval(layout.scan_begin);
  return true;
}

void JpegEntropyDecoder::WantMeansOnly(int component) {
  for (int b = 0; b < num_blocks_; ++b) blocks_[b].mean_only |= blocks_[b].component == component;
  any_mean_only_ = true;
}

void JpegEntropyDecoder::UseRuns(bool build) {
  uses_runs_ = true;
  for (Table& table : tables_[1]) {
    const auto uses = [&](const Block& block) { return block.ac == &table; };
    if (table.run_bits == run_bits_ ||
        std::none_of(blocks_.begin(), blocks_.begin() + num_blocks_, uses)) {
      continue;
    }
    if (build) {
      table.BuildRuns(run_bits_);
    } else {
      uses_runs_ = false;
    }
  }
}

void JpegEntropyDecoder::CountUnwanted() {
  if (++unwanted_ == kMcusWithoutRuns && !uses_runs_) UseRuns(/*build=*/true);
}

void JpegEntropyDecoder::StartInterval(size_t begin) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(jpeg_.data());
  bits_ = Bits();
  bits_.at = bytes + begin;
  bits_.end = bytes + jpeg_.size();
  last_dc_ = {};
}

// Whether nothing is left before the next marker but the bits that fill up the last byte.
bool JpegEntropyDecoder::EndsHere() const {
  const uint8_t* at = bits_.at;
  while (at != bits_.end && *at == 0xff) ++at;
  return bits_.count - bits_.padding < 8 && at != bits_.at && at != bits_.end && *at != 0;
}

bool JpegEntropyDecoder::JumpTo(uint64_t number) {
  const uint64_t interval = number / restart_interval_;
  size_t begin = 0;
  if (!restarts_.Find(interval, &begin)) return false;
  StartInterval(begin);
  next_ = interval * restart_interval_;
  interval_end_ = next_ + restart_interval_;
  return true;
}

bool JpegEntropyDecoder::Decode(uint64_t number, int16_t (*const* blocks)[64]) {
  if (number >= interval_end_ && !JumpTo(number)) return false;
  for (; next_ < number; ++next_) {
    if (!DecodeMcu<false>(nullptr)) return false;
    CountUnwanted();
  }
  ++next_;
  if (any_mean_only_) CountUnwanted();
  if (!(blocks == nullptr ? DecodeMcu<false>(nullptr) : DecodeMcu<true>(blocks))) return false;
  return next_ != interval_end_ || next_ >= num_mcus_ || EndsHere();
}

}  // namespace shardfeed
