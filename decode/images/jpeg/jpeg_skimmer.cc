#include "decode/images/jpeg/jpeg_skimmer.h"

#include <algorithm>
#include <cstring>

namespace shardfeed {

void JpegSkimmer::Runs::Build(const JpegHuffmanTable& dc, const JpegHuffmanTable& ac) {
  if (dc.source == dc_source && ac.source == ac_source) return;
  // Runs of kRunBits bits and of fewer.
  const auto of_fewer = std::make_unique_for_overwrite<uint32_t[]>(2 * kInBlock);
  BuildJpegRuns<RunFormat>(ac, kRunBits, of_fewer.get());
  for (uint32_t i = 0; i < kInBlock; ++i) {
    const uint32_t run = of_fewer[kInBlock + i];
    of_bits[kInBlock + i] = run == 0 ? kUnknownRun : run;
  }
  for (uint32_t i = 0; i < kInBlock;) {
    const uint32_t bits = i << (16 - kRunBits);
    const JpegHuffmanTable::Symbol symbol = dc.Next(bits);
    const int used = JpegHuffmanTable::BitsOf(symbol);
    const int size = JpegHuffmanTable::SizeOf(symbol);
    if (symbol == 0 || used > kRunBits || size > kMaxDifferenceBits) {
      of_bits[i++] = kUnknownRun;
      continue;
    }
    const uint32_t rests = 1U << (kRunBits - used);
    const int32_t difference = JpegCoefficient(uint64_t{bits} << 48, symbol);
    const uint32_t first =
        RunFormat::Of(used, 1, /*end=*/false) + static_cast<uint32_t>(difference + kBias);
    for (uint32_t rest = 0; rest < rests; ++rest) of_bits[i++] = first + of_fewer[rests + rest];
  }
  dc_source = dc.source;
  ac_source = ac.source;
}

void JpegSkimmer::Start(std::string_view data, const Block* blocks, int num_blocks, uint64_t end) {
  if (bytes_ == nullptr) {
    constexpr size_t kBytes = kStreams * kStreamBytes + kSlackBytes + 2 * kPadding;
    bytes_ = std::make_unique_for_overwrite<uint8_t[]>(kBytes);
    stuffed_.reserve(kBytes);
    found_ = std::make_unique_for_overwrite<State[]>(kStreams * kMaxFound);
    begins_ = std::make_unique_for_overwrite<uint32_t[]>(kStreams * kMaxFound + 1);
    means_ = std::make_unique_for_overwrite<int16_t[]>(kStreams * kMaxFound);
  }
  data_ = data;
  std::copy_n(blocks, num_blocks, blocks_.begin());
  num_blocks_ = static_cast<uint64_t>(num_blocks);
  end_ = end;
  std::array<const uint32_t*, kMaxBlocks> of_block;
  size_t num_runs = 0;
  for (int b = 0; b < num_blocks; ++b) {
    const auto same = [&](const Block& block) {
      return block.dc == blocks[b].dc && block.ac == blocks[b].ac;
    };
    const auto before = static_cast<size_t>(std::find_if(blocks, blocks + b, same) - blocks);
    if (before < static_cast<size_t>(b)) {
      of_block[b] = of_block[before];
      continue;
    }
    std::unique_ptr<Runs>& runs = runs_[num_runs++];
    if (runs == nullptr) runs = std::make_unique<Runs>();
    runs->Build(*blocks[b].dc, *blocks[b].ac);
    of_block[b] = runs->of_bits.data();
  }
  for (size_t b = 0; b < runs_of_block_.size(); ++b) runs_of_block_[b] = of_block[b % num_blocks_];

  source_ = 0;
  first_ = 0;
  num_ = 0;
  begins_[0] = 0;
  stuffed_.clear();
  last_dc_ = {};
}

bool JpegSkimmer::Find(uint64_t number) {
  end_ = std::max(end_, number + 1);
  while (number >= first_ + num_) {
    if (!SkimStretch()) return false;
  }
  index_ = number - first_;
  return true;
}

size_t JpegSkimmer::End() const {
  const uint32_t end = (Begins()[num_blocks_] + 7) / 8;
  const auto left_out = std::upper_bound(stuffed_.begin(), stuffed_.end(), end);
  return source_ + end + static_cast<size_t>(left_out - stuffed_.begin());
}

// Fills `bytes_` with `size` bytes from `source_` on, and kPadding more. Returns whether the data
// ends there.
bool JpegSkimmer::Unstuff(size_t size) {
  const auto* const data = reinterpret_cast<const uint8_t*>(data_.data());
  stuffed_.clear();
  size_t at = source_;
  size_t num = 0;
  size += kPadding;
  while (num < size) {
    const size_t room = std::min(size - num, data_.size() - at);
    const auto* const ff =
        static_cast<const uint8_t*>(room == 0 ? nullptr : std::memchr(data + at, 0xff, room));
    const size_t plain = ff == nullptr ? room : static_cast<size_t>(ff - (data + at));
    std::copy_n(data + at, plain, &bytes_[num]);
    at += plain;
    num += plain;
    if (num == size) break;
    if (data_.size() - at < 2 || data[at + 1] != 0) {
      limit_ = 8 * num;
      std::fill_n(&bytes_[num], kPadding, uint8_t{0});
      return true;
    }
    bytes_[num++] = 0xff;
    at += 2;
    stuffed_.push_back(static_cast<uint32_t>(num));
  }
  limit_ = 8 * (size - kPadding);
  return false;
}

// Reads one code. Returns false if there is none, or if it does not fit the block.
bool JpegSkimmer::Step(State* state, const Block& block) const {
  const uint64_t begin = *state >> kBitsShift;
  const uint64_t bits = LoadJpegBits(&bytes_[begin / 8]) << (begin % 8);
  const bool is_dc = (*state & kCountMask) == 0;
  const JpegHuffmanTable::Symbol symbol =
      (is_dc ? block.dc : block.ac)->Next(static_cast<uint32_t>(bits >> 48));
  if (symbol == 0) return false;
  const int size = JpegHuffmanTable::SizeOf(symbol);
  const int advance = JpegHuffmanTable::AdvanceOf(symbol);
  *state += static_cast<State>(JpegHuffmanTable::BitsOf(symbol)) << kBitsShift;
  if (is_dc) {
    if (size > kMaxDifferenceBits) return false;
    const int32_t difference = JpegCoefficient(bits, symbol);
    *state += (State{1} << kCountShift) + static_cast<State>(difference + kBias);
    return true;
  }
  State end = 1;
  if (advance < JpegHuffmanTable::kEndOfBlock) {
    *state += static_cast<State>(advance) << kCountShift;
    const State count = (*state & kCountMask) >> kCountShift;
    if (count > 64) return false;
    end = count / 64;
  }
  *state |= end << kEndShift;
  return true;
}

// Advances until all streams have reached their goals, or one of them cannot go on. If a stream
// comes upon invalid data, either its assumed beginning was wrong and it begins again, or the data
// is damaged.
template <int kNum>
void JpegSkimmer::Advance(Stream* streams) {
  const uint8_t* const bytes = bytes_.get();
  State states[kNum];
  for (int i = 0; i < kNum; ++i) states[i] = streams[i].state;
  while (true) {
    bool done = true;
    uint64_t steps = kMaxSteps;
    const uint32_t* runs[kNum];
    // Counted from the beginning of the last incomplete MCU.
    uint64_t blocks[kNum];
    State* found[kNum];
    for (int i = 0; i < kNum; ++i) {
      const uint64_t bits = states[i] >> kBitsShift;
      done = done && bits >= streams[i].goal;
      if (streams[i].damaged) steps = 0;
      steps = std::min({steps, (limit_ - std::min(limit_, bits)) / kMaxStepBits,
                        kMaxFound - streams[i].num_found});
      blocks[i] = streams[i].num_found % num_blocks_;
      found[i] = streams[i].found + streams[i].num_found - blocks[i];
      runs[i] = runs_of_block_[blocks[i]] + ((states[i] & kCountMask) == 0 ? 0 : kInBlock);
    }
    if (done || steps == 0) break;
    for (uint64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 4
      for (int i = 0; i < kNum; ++i) {
        const uint64_t begin = states[i] >> kBitsShift;
        const uint64_t bits = LoadJpegBits(bytes + begin / 8) << (begin % 8);
        State state = states[i] + runs[i][bits >> (64 - kRunBits)];
        if ((state & kLookCloser) != 0) [[unlikely]] {
          state = states[i];
          if (!Step(&state, blocks_[blocks[i] % num_blocks_])) {
            if (streams[i].right) {
              streams[i].damaged = true;
              steps = 0;
              break;
            }
            streams[i].begin = begin + 1;
            states[i] = streams[i].begin << kBitsShift;
            blocks[i] = 0;
            found[i] = streams[i].found;
            runs[i] = runs_of_block_[0];
            continue;
          }
        }
        found[i][blocks[i]] = state;
        const uint64_t ended = state >> kEndShift & 1;
        states[i] = state & ~((0 - ended) & kBlockMask);
        blocks[i] += ended;
        runs[i] = runs_of_block_[blocks[i]] + (kInBlock & (ended - 1));
      }
    }
    for (int i = 0; i < kNum; ++i) {
      streams[i].num_found = static_cast<uint64_t>(found[i] - streams[i].found) + blocks[i];
    }
  }
  for (int i = 0; i < kNum; ++i) streams[i].state = states[i];
}

// Continues a stream that is right. Returns false if it cannot go on.
bool JpegSkimmer::Extend(Stream* stream) {
  const State before = stream->state;
  stream->goal = (before >> kBitsShift) + kMeetingBits;
  Advance<1>(stream);
  if (stream->state != before) return true;
  // Here come the last bits of the data, which zeros follow.
  if (stream->damaged || !at_end_ || (before >> kBitsShift) >= limit_ ||
      stream->num_found == kMaxFound) {
    return false;
  }
  if (!Step(&stream->state, blocks_[stream->num_found % num_blocks_])) return false;
  if ((stream->state >> kEndShift & 1) != 0) {
    stream->found[stream->num_found++] = stream->state;
    stream->state &= ~kBlockMask;
  }
  return true;
}

// Combines the results of the streams.
void JpegSkimmer::Join(Stream* streams, int num_streams) {
  const auto begin_of = [this](const Stream& stream, uint64_t mcu) {
    return mcu == 0 ? stream.begin : stream.found[mcu * num_blocks_ - 1] >> kBitsShift;
  };
  Stream* stream = &streams[0];
  uint64_t mcu = 0;  // next MCU of `stream`
  int other = 1;     // the stream that it should meet next
  uint64_t other_mcu = 0;
  const uint64_t max_mcus = kStreams * kMaxFound / num_blocks_;
  while (num_ < max_mcus) {
    const uint64_t begin = begin_of(*stream, mcu);
    while (other < num_streams && begin >= streams[other].begin) {
      const Stream& next = streams[other];
      const uint64_t num_mcus = next.num_found / num_blocks_;
      while (other_mcu < num_mcus && begin_of(next, other_mcu) < begin) ++other_mcu;
      if (other_mcu < num_mcus) {
        if (begin_of(next, other_mcu) != begin) break;
        stream = &streams[other];
        stream->right = true;
        mcu = other_mcu;
      }
      // Otherwise `next` was passed without a meeting.
      ++other;
      other_mcu = 0;
    }
    while (stream->num_found < (mcu + 1) * num_blocks_) {
      // A single stream is slow, so it goes on only up to the next one or to the end.
      const bool alone = other == num_streams && !at_end_ && num_ > 0;
      if (alone || first_ + num_ >= end_ || !Extend(stream)) return;
    }
    const State* const found = stream->found + mcu * num_blocks_;
    if ((found[num_blocks_ - 1] >> kBitsShift) > limit_) return;
    int16_t* const means = &means_[num_ * num_blocks_];
    uint32_t* const ends = &begins_[num_ * num_blocks_ + 1];
    for (uint64_t b = 0; b < num_blocks_;) {
      const int component = blocks_[b].component;
      uint32_t last_dc = last_dc_[component];
      for (; b < num_blocks_ && blocks_[b].component == component; ++b) {
        last_dc += static_cast<uint32_t>(found[b] & kDifferenceMask) - kBias;
        means[b] = static_cast<int16_t>(last_dc);
        ends[b] = static_cast<uint32_t>(found[b] >> kBitsShift);
      }
      last_dc_[component] = last_dc;
    }
    ++mcu;
    ++num_;
  }
}

bool JpegSkimmer::SkimStretch() {
  // The stretch begins where the last one ended.
  const uint32_t begin = begins_[num_ * num_blocks_];
  const auto left_out = std::upper_bound(stuffed_.begin(), stuffed_.end(), begin / 8);
  source_ += begin / 8 + static_cast<size_t>(left_out - stuffed_.begin());
  begins_[0] = begin % 8;
  first_ += num_;
  num_ = 0;
  size_t size = kStreams * kStreamBytes;
  if (first_ > 0) {
    // Limited to what the streams have room for and to the data that is left, estimated from the
    // mean size of MCUs so far.
    const double mcu_bytes = static_cast<double>(source_ + 1) / static_cast<double>(first_);
    const auto half = static_cast<double>(kStreams * kMaxFound) / 2;
    const double room = mcu_bytes * half / static_cast<double>(num_blocks_);
    const double left = mcu_bytes * static_cast<double>(end_ - first_) * 17 / 16;
    size = std::clamp(static_cast<size_t>(std::min(room, left)), kStreams * kMinStreamBytes, size);
  }
  at_end_ = Unstuff(size + kSlackBytes);
  const int num_streams = limit_ / 8 >= kStreams * kMinStreamBytes ? kStreams : 1;
  const uint64_t stream_bits =
      std::min<uint64_t>(8 * size, limit_) / static_cast<uint64_t>(num_streams);
  std::array<Stream, kStreams> streams;
  streams[0].right = true;
  for (int i = 0; i < num_streams; ++i) {
    Stream& stream = streams[i];
    stream.begin = i == 0 ? begins_[0] : stream_bits * i;
    stream.goal = stream_bits * (i + 1) + (i + 1 < num_streams ? kMeetingBits : 0);
    stream.state = stream.begin << kBitsShift;
    stream.found = &found_[kMaxFound * i];
  }
  if (num_streams == kStreams) {
    Advance<kStreams>(streams.data());
  } else {
    Advance<1>(streams.data());
  }
  Join(streams.data(), num_streams);
  return num_ > 0;
}

}  // namespace shardfeed
