#include "decode/jpeg_entropy.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace shardfeed {
namespace {

// Where the k-th coefficient of the zigzag stands, row by row. The last repeats, so that a damaged
// block, which has too many, stays within its memory.
constexpr std::array<uint8_t, 64 + 16> kNaturalOrder = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33,
    40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

// A coefficient of `size` bits (at least 1): the lower half of their values are negative.
int32_t Extend(uint32_t bits, int size) {
  const auto value = static_cast<int32_t>(bits);
  return value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
}

uint32_t Entry(int bits, int advance, int32_t value) {
  return static_cast<uint32_t>(bits) | static_cast<uint32_t>(advance) << 8 |
         static_cast<uint32_t>(value) << 16;
}

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

bool JpegEntropyDecoder::Table::Build(std::string_view counts_and_symbols, bool is_dc) {
  if (counts_and_symbols.empty()) return false;
  if (counts_and_symbols == source) return true;
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
      if (length > kLookupBits) continue;
      const int size = symbol & 15;
      const int free = kLookupBits - length;
      uint32_t* entries = &lookup[code << free];
      if (size > free || (size == 0 && !is_dc)) {
        std::fill_n(entries, 1 << free, Entry(length, 0, symbol));
        continue;
      }
      const int zeros = symbol >> 4;
      for (uint32_t rest = 0; rest < uint32_t{1} << free; ++rest) {
        const int32_t value = size == 0 ? 0 : Extend(rest >> (free - size), size);
        entries[rest] = Entry(length + size, 1 + zeros, value);
      }
    }
    if (length > kLookupBits) limit[length] = code << (16 - length);
  }
  source = counts_and_symbols;
  return true;
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
  while (count <= 56) {
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

bool JpegEntropyDecoder::LongCode(const Table& table, Bits& bits, uint32_t* symbol) {
  const uint32_t next = bits.Peek(16);
  for (int length = kLookupBits + 1; length <= 16; ++length) {
    if (next >= table.limit[length]) continue;
    const auto index = static_cast<size_t>(table.offset[length] +
                                           static_cast<int32_t>(next >> (16 - length)));
    *symbol = static_cast<uint8_t>(table.source[index]);
    bits.Consume(length);
    return true;
  }
  return false;
}

template <bool kStore>
bool JpegEntropyDecoder::DecodeMcu(int16_t (*const* blocks)[64]) {
  Bits bits = bits_;
  for (int b = 0; b < num_blocks_; ++b) {
    const Block& block = blocks_[b];
    if (bits.count < 32) bits.Refill();
    {
      const uint32_t entry = block.dc->lookup[bits.Peek(kLookupBits)];
      bits.Consume(entry & 0xff);
      int32_t difference = static_cast<int32_t>(entry) >> 16;
      if ((entry >> 8 & 0xff) == 0) {
        uint32_t size = entry >> 16;
        if (entry == 0 && !LongCode(*block.dc, bits, &size)) return false;
        difference = 0;
        if (size > 0) {
          difference = Extend(bits.Peek(size), size);
          bits.Consume(size);
        }
      }
      // Wraps around in damaged data.
      last_dc_[block.component] += static_cast<uint32_t>(difference);
      if (kStore) (*blocks[b])[0] = static_cast<int16_t>(last_dc_[block.component]);
    }
    const uint32_t* lookup = block.ac->lookup.data();
    int k = 1;
    while (k < 64) {
      if (bits.count < 32) bits.Refill();
      const uint32_t entry = lookup[bits.Peek(kLookupBits)];
      bits.Consume(entry & 0xff);
      const int advance = entry >> 8 & 0xff;
      if (advance > 0) [[likely]] {
        k += advance;
        if (kStore) (*blocks[b])[kNaturalOrder[k - 1]] = static_cast<int16_t>(entry >> 16);
        continue;
      }
      uint32_t symbol = entry >> 16;
      if (entry == 0 && !LongCode(*block.ac, bits, &symbol)) return false;
      const int size = symbol & 15;
      if (size == 0) {
        if (symbol != 0xf0) break;
        k += 16;
        continue;
      }
      k += 1 + static_cast<int>(symbol >> 4);
      if (kStore) {
        (*blocks[b])[kNaturalOrder[k - 1]] = static_cast<int16_t>(Extend(bits.Peek(size), size));
      }
      bits.Consume(size);
    }
    if (k > 64) return false;
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
  interval_end_ =
      restart_interval_ > 0 ? restart_interval_ : std::numeric_limits<uint64_t>::max();
  next_ = 0;
  if (restart_interval_ > 0) restarts_.Start(jpeg, layout.scan_begin);
  StartInterval(layout.scan_begin);
  return true;
}

void JpegEntropyDecoder::StartInterval(size_t begin) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(jpeg_.data());
  bits_ = Bits();
  bits_.at = bytes + begin;
  bits_.end = bytes + jpeg_.size();
  last_dc_ = {};
}

// Whether nothing is left between here and a marker but the bits that fill up the last byte.
bool JpegEntropyDecoder::EndsAt(size_t marker) const {
  const size_t at = bits_.at - reinterpret_cast<const uint8_t*>(jpeg_.data());
  return at <= marker && bits_.count - bits_.padding < 8 &&
         jpeg_.substr(at, marker - at).find_first_not_of('\xff') == std::string_view::npos;
}

bool JpegEntropyDecoder::JumpTo(uint64_t number) {
  const uint64_t interval = number / restart_interval_;
  size_t begin = 0;
  if (next_ == interval_end_ &&
      (!restarts_.Find(next_ / restart_interval_, &begin) || !EndsAt(begin - 2))) {
    return false;
  }
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
  }
  ++next_;
  return blocks == nullptr ? DecodeMcu<false>(nullptr) : DecodeMcu<true>(blocks);
}

}  // namespace shardfeed
