#include "decode/images/jpeg/jpeg_entropy.h"

#include <algorithm>
#include <limits>

#include "media/jpeg_markers.h"

namespace shardfeed {
namespace {

using Huffman = JpegHuffmanTable;

// Maps the k-th coefficient in zigzag order to its index, row by row. Indices past the 64th occur
// at ends of blocks, which write a zero where there was one, and in damaged blocks.
constexpr std::array<uint8_t, 64 + 128 + 16> kNaturalOrder = [] {
  std::array<uint8_t, 64 + 128 + 16> order;
  order.fill(63);
  int row = 0;
  int column = 0;
  for (int k = 0; k < 64; ++k) {
    order[k] = static_cast<uint8_t>(8 * row + column);
    // Diagonals go up and down alternately.
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

// Whether one of the 8 bytes is 0xff.
bool HasFf(uint64_t bytes) {
  return ((~bytes - 0x0101010101010101) & bytes & 0x8080808080808080) != 0;
}

// The marker at `at`, after any number of fill bytes (FF), or 0 if there is none.
uint8_t MarkerAt(const uint8_t* at, const uint8_t* end) {
  const uint8_t* const begin = at;
  while (at != end && *at == 0xff) ++at;
  return at != begin && at != end ? *at : 0;
}

}  // namespace

// Ensures at least 56 bits.
inline void JpegEntropyDecoder::Bits::Refill() {
  if (end - at >= 8) [[likely]] {
    const uint64_t bytes = LoadJpegBits(at);
    if (!HasFf(bytes)) [[likely]] {
      // Part of the byte that does not fit is in `buffer` too; the next refill stores the same bits
      // there.
      buffer |= bytes >> count;
      at += (63 - count) >> 3;
      count |= 56;
      return;
    }
  }
  RefillSlowly();
}

inline void JpegEntropyDecoder::PlainBits::Refill() {
  buffer |= LoadJpegBits(at) >> count;
  at += (63 - count) >> 3;
  count |= 56;
}

void JpegEntropyDecoder::Bits::RefillSlowly() {
  while (count < 56) {
    if (at == end || (*at == 0xff && (end - at < 2 || at[1] != 0))) {
      // The data ends here. Zeros follow, which `buffer` has already.
      count += 64;
      padding += 64;
      return;
    }
    buffer |= uint64_t{*at} << (56 - count);
    count += 8;
    at += *at == 0xff ? 2 : 1;
  }
}

// Skips the AC coefficients of a block. Returns false if the block is damaged.
inline bool JpegEntropyDecoder::SkipCoefficients(const Table& ac, Bits* bits) {
  uint32_t k = 1;
  while (true) {
    bits->Refill();
    for (int i = 0; i < 56 / kRunBits; ++i) {
      const uint32_t run = ac.runs[bits->Peek(kRunBits)];
      const uint32_t next = k + (run >> 4);
      // The block may end within the run; then the rest of the run belongs to the next block.
      if (run == 0 || (next > 63 && next - kEndOfRun > 63)) break;
      k = next;
      bits->Consume(static_cast<int>(run & 15));
      if (k > 63) return true;
    }
    if (bits->count < 32) continue;
    const Huffman::Symbol symbol = ac.codes.Next(bits->Peek(16));
    if (symbol == 0) return false;
    k += static_cast<uint32_t>(Huffman::AdvanceOf(symbol));
    bits->Consume(Huffman::BitsOf(symbol));
    if (k > 63) return k == 64 || k >= Huffman::kEndOfBlock;
  }
}

// Decodes the AC coefficients of a block. Returns false if the block is damaged.
template <bool kStore, typename AnyBits>
[[gnu::always_inline]] inline bool JpegEntropyDecoder::DecodeCoefficients(const Huffman& ac,
                                                                          AnyBits* bits,
                                                                          int16_t* coefficients) {
  int k = 1;
  const auto take = [&](Huffman::Symbol symbol) __attribute__((always_inline)) {
    k += Huffman::AdvanceOf(symbol);
    if (kStore) {
      coefficients[kNaturalOrder[k - 1]] =
          static_cast<int16_t>(JpegCoefficient(bits->buffer, symbol));
    }
    bits->Consume(Huffman::BitsOf(symbol));
    return k < 64;
  };
  // Decodes a symbol. Returns false if the block is complete.
  const auto step = [&]() __attribute__((always_inline)) {
    const Huffman::Symbol symbol = ac.lookup[bits->Peek(Huffman::kLookupBits)];
    if (symbol != 0) [[likely]]
      return take(symbol);
    bits->Refill();
    const Huffman::Symbol found = ac.Find(bits->Peek(16));
    if (found == 0) {
      k = 65;
      return false;
    }
    const bool more = take(found);
    bits->Refill();
    return more;
  };
  if (bits->count < 2 * Huffman::kMaxSymbolBits) bits->Refill();
  // Three symbols for each check of the number of bits.
  if (step() && step()) {
    do {
      bits->Refill();
    } while (step() && step() && step());
  }
  return k == 64 || k >= Huffman::kEndOfBlock;
}

template <bool kStore>
bool JpegEntropyDecoder::DecodeMcu(int16_t (*const* blocks)[64]) {
  Bits bits = bits_;
  for (int b = 0; b < num_blocks_; ++b) {
    const Block& block = blocks_[b];
    int16_t* const coefficients = kStore ? *blocks[b] : nullptr;
    bits.Refill();
    const Huffman::Symbol difference = block.dc->codes.Next(bits.Peek(16));
    if (difference == 0) [[unlikely]]
      return false;
    // In damaged data the sum may wrap around.
    uint32_t& last_dc = last_dc_[block.component];
    last_dc += static_cast<uint32_t>(JpegCoefficient(bits.buffer, difference));
    bits.Consume(Huffman::BitsOf(difference));
    if (kStore) coefficients[0] = static_cast<int16_t>(last_dc);
    const bool skip = uses_runs_ && (!kStore || block.mean_only);
    if (!(skip ? SkipCoefficients(*block.ac, &bits)
               : DecodeCoefficients<kStore>(block.ac->codes, &bits, coefficients))) {
      return false;
    }
  }
  bits_ = bits;
  return bits.padding <= bits.count;
}

void JpegEntropyDecoder::Table::BuildRuns() {
  std::array<uint16_t, 2 << kRunBits> of_fewer;
  BuildJpegRuns<RunFormat>(codes, kRunBits, of_fewer.data());
  std::copy_n(&of_fewer[runs.size()], runs.size(), runs.begin());
  has_runs = true;
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
      const std::string_view source = layout.huffman[is_dc ? 0 : 1][number];
      table.has_runs = table.has_runs && table.codes.source == source;
      if (!table.codes.Build(source, is_dc)) return false;
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
  skims_ = false;
  scan_begin_ = layout.scan_begin;
  UseRuns(/*build=*/false);
  if (restart_interval_ > 0) restarts_.Start(jpeg, layout.scan_begin);
  StartInterval(layout.scan_begin);
  return true;
}

void JpegEntropyDecoder::WantMeansOnly(int component) {
  for (int b = 0; b < num_blocks_; ++b) blocks_[b].mean_only |= blocks_[b].component == component;
  any_mean_only_ = true;
}

void JpegEntropyDecoder::WantFewOf(uint64_t end, uint64_t num_wanted) {
  const auto num_whole =
      static_cast<uint64_t>(std::count_if(blocks_.begin(), blocks_.begin() + num_blocks_,
                                          [](const Block& block) { return !block.mean_only; }));
  // If all components share tables, streams do not synchronize.
  const bool streams_meet =
      num_blocks_ == 1 ||
      std::any_of(blocks_.begin(), blocks_.begin() + num_blocks_, [this](const Block& block) {
        return block.dc != blocks_[0].dc || block.ac != blocks_[0].ac;
      });
  // Skimming takes about half as long as decoding, which has to follow it.
  skims_ = restart_interval_ == 0 && end >= kMinMcusToSkim && streams_meet &&
           num_wanted * num_whole < end * static_cast<uint64_t>(num_blocks_) * 2 / 5;
  if (!skims_) return;
  std::array<JpegSkimmer::Block, JpegSkimmer::kMaxBlocks> blocks;
  for (int b = 0; b < num_blocks_; ++b) {
    blocks[b] = {&blocks_[b].dc->codes, &blocks_[b].ac->codes, blocks_[b].component};
  }
  skimmer_.Start(jpeg_.substr(scan_begin_), blocks.data(), num_blocks_, end);
}

void JpegEntropyDecoder::UseRuns(bool build) {
  uses_runs_ = true;
  for (Table& table : tables_[1]) {
    const auto uses = [&](const Block& block) { return block.ac == &table; };
    if (table.has_runs || std::none_of(blocks_.begin(), blocks_.begin() + num_blocks_, uses)) {
      continue;
    }
    if (build) {
      table.BuildRuns();
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

// Whether only the bits that fill up the last byte precede the next marker.
bool JpegEntropyDecoder::EndsHere(bool of_image) const {
  if (bits_.count - bits_.padding >= 8) return false;
  const uint8_t marker = MarkerAt(bits_.at, bits_.end);
  return of_image ? marker == kJpegEoi : marker != 0;
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

bool JpegEntropyDecoder::DecodeSkimmed(uint64_t number, int16_t (*const* blocks)[64]) {
  if (!skimmer_.Find(number)) return false;
  if (number + 1 == num_mcus_) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(jpeg_.data());
    const size_t behind = scan_begin_ + skimmer_.End();
    if (MarkerAt(bytes + behind, bytes + jpeg_.size()) != kJpegEoi) return false;
  }
  if (blocks == nullptr) return true;
  for (int b = 0; b < num_blocks_; ++b) {
    const Block& block = blocks_[b];
    int16_t* const coefficients = *blocks[b];
    coefficients[0] = skimmer_.Means()[b];
    if (block.mean_only) continue;
    const uint32_t begin = skimmer_.Begins()[b];
    PlainBits bits;
    bits.at = skimmer_.bytes() + begin / 8;
    bits.Refill();
    bits.Consume(static_cast<int>(begin % 8));
    bits.Refill();
    bits.Consume(Huffman::BitsOf(block.dc->codes.Next(bits.Peek(16))));
    if (!DecodeCoefficients<true>(block.ac->codes, &bits, coefficients)) return false;
  }
  return true;
}

bool JpegEntropyDecoder::Decode(uint64_t number, int16_t (*const* blocks)[64]) {
  if (skims_) return DecodeSkimmed(number, blocks);
  if (number >= interval_end_ && !JumpTo(number)) return false;
  for (; next_ < number; ++next_) {
    if (!DecodeMcu<false>(nullptr)) return false;
    CountUnwanted();
  }
  ++next_;
  if (any_mean_only_) CountUnwanted();
  if (!(blocks == nullptr ? DecodeMcu<false>(nullptr) : DecodeMcu<true>(blocks))) return false;
  if (next_ == num_mcus_) return EndsHere(/*of_image=*/true);
  return next_ != interval_end_ || EndsHere(/*of_image=*/false);
}

}  // namespace shardfeed
