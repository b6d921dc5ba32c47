// Finds where the MCUs of entropy-coded data begin, and the DC coefficients of their blocks, faster
// than by decoding them one after another.
//
// A code is known only when the one before it is, and where a block ends is hard to foresee: most
// of the time, a processor that decodes one stream of codes waits. So four streams are read side by
// side, without branches. The first begins where an MCU begins, the others anywhere, as if an MCU
// began there. Huffman codes synchronise by themselves: after some that were read wrongly a stream
// comes upon the beginning of an MCU (in images, half of them within 2 MCUs and nearly all within
// 16). What it finds from there on holds once the stream before it comes upon the same beginning;
// until then, that one goes on. So nothing in the result is guessed.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_JPEG_SKIMMER_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_JPEG_SKIMMER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decode/images/jpeg/jpeg_huffman.h"

namespace shardfeed {

// Reuse one for many images: it keeps its memory, up to 0.9 MiB, and tables that two images
// share are built once. Not thread safe.
class JpegSkimmer {
 public:
  static constexpr int kMaxBlocks = 10;
  static constexpr int kMaxComponents = 4;

  struct Block {
    const JpegHuffmanTable* dc = nullptr;
    const JpegHuffmanTable* ac = nullptr;
    int component = 0;
  };

  // Begins at the start of `data`, which is entropy-coded and ends for it before the first marker,
  // be it one of restart; `blocks` are those of each MCU, up to kMaxBlocks of up to kMaxComponents
  // components, whose blocks share tables. `data` and the tables must outlive the skimming. It is
  // faster if MCUs from `end` on are not asked for.
  //
  // Streams find each other at MCUs: where the blocks of several components have the same tables,
  // one that began amid an MCU hardly ever meets another, and nothing is gained.
  void Start(std::string_view data, const Block* blocks, int num_blocks, uint64_t end);

  // Goes on to the MCU of that number; numbers must ascend. False: the data is damaged, or ends, on
  // the way, or a difference of DC coefficients is larger than any in images of 8 bits.
  bool Find(uint64_t number);

  // Of the blocks of the MCU that was found last: the DC coefficients.
  const int16_t* Means() const { return &means_[index_ * num_blocks_]; }
  // Where each begins, in bits from bytes() on, and the last one ends.
  const uint32_t* Begins() const { return &begins_[index_ * num_blocks_]; }
  // The offset in the data of the first byte behind that MCU, stuffed bytes included.
  size_t End() const;
  // The data around it, without stuffed bytes. From where a block begins or ends, 16 bytes can be
  // read: zeros follow the data.
  const uint8_t* bytes() const { return bytes_.get(); }

 private:
  static constexpr int kStreams = 4;
  // Codes are looked up several at a time, as many as end within so many bits.
  static constexpr int kRunBits = 13;
  // Of each stream at a time: with what is found there, all stays in the second-level cache.
  static constexpr size_t kStreamBytes = 8192;
  static constexpr size_t kMinStreamBytes = 512;
  // Streams that are ahead go on meanwhile, so far at most.
  static constexpr size_t kSlackBytes = kStreamBytes / 2;
  // In so many bits a stream nearly always meets the next one.
  static constexpr uint64_t kMeetingBits = 2048;
  static constexpr size_t kMaxFound = 8192;  // blocks of a stream at a time
  static constexpr size_t kPadding = 16;     // readable bytes after the data, see bytes()
  static constexpr uint64_t kMaxSteps = 64;  // between looks at how far streams are
  static constexpr uint64_t kMaxStepBits = 32;

  // How far a stream is, and what a run adds to that. From the lowest bit: 12 for the difference of
  // the DC coefficient to the one before, plus kBias; 9 for the coefficients of the block so far,
  // none at its beginning; 2 for nothing; 1 that is set at its end; 40 for the bits read.
  using State = uint64_t;
  static constexpr int kCountShift = 12;
  static constexpr int kEndShift = 23;
  static constexpr int kBitsShift = 24;
  static constexpr State kDifferenceMask = (1 << kCountShift) - 1;
  static constexpr State kCountMask = 0x1ff << kCountShift;
  static constexpr State kBlockMask = (1 << kBitsShift) - 1;
  static constexpr int32_t kBias = 2048;
  static constexpr int kMaxDifferenceBits = 11;  // more are in no image of 8 bits
  // Complete without an end, or too many: one code at a time tells. Runs that are not known count
  // so, too.
  static constexpr State kLookCloser = 0x1c0 << kCountShift;
  static constexpr uint32_t kUnknownRun = 0x100 << kCountShift;
  static_assert(63 + 16 * kRunBits < 0x200 && 63 + 0x100 < 0x200);

  struct RunFormat {
    using Run = uint32_t;
    static Run Of(int used, int advance, bool end) {
      return static_cast<Run>(used) << kBitsShift | static_cast<Run>(advance) << kCountShift |
             (end ? Run{1} << kEndShift : 0);
    }
  };

  // Runs by the next kRunBits bits: from the beginning of a block on; from kInBlock on, those from
  // any other coefficient on.
  static constexpr size_t kInBlock = size_t{1} << kRunBits;
  struct Runs {
    std::string dc_source;
    std::string ac_source;
    std::array<uint32_t, 2 * kInBlock> of_bits;

    void Build(const JpegHuffmanTable& dc, const JpegHuffmanTable& ac);
  };

  struct Stream {
    uint64_t begin = 0;  // bit at which an MCU begins, or is assumed to
    uint64_t goal = 0;   // bit at which to stop
    State state = 0;
    // The states at the ends of the blocks from `begin` on.
    State* found = nullptr;
    uint64_t num_found = 0;
    bool right = false;    // whether an MCU does begin at `begin`
    bool damaged = false;  // whether the data after the last block of a right stream is damaged
  };

  bool SkimStretch();
  bool Unstuff(size_t size);
  bool Step(State* state, const Block& block) const;
  template <int kNum>
  void Advance(Stream* streams);
  bool Extend(Stream* stream);
  void Join(Stream* streams, int num_streams);

  std::string_view data_;
  std::array<Block, kMaxBlocks> blocks_;
  uint64_t num_blocks_ = 0;
  uint64_t end_ = 0;
  std::array<std::unique_ptr<Runs>, kMaxComponents> runs_;
  // Of the blocks from the beginning of an MCU on, as many as a stream can meet between two looks.
  std::array<const uint32_t*, kMaxBlocks + kMaxSteps + 1> runs_of_block_ = {};

  // The stretch that was skimmed last, from an MCU on.
  size_t source_ = 0;                 // the byte of `data_` that it begins in
  std::unique_ptr<uint8_t[]> bytes_;  // data without the zeros stuffed after 0xff
  uint64_t limit_ = 0;                // size of that data in bits
  bool at_end_ = false;               // nothing follows
  std::vector<uint32_t> stuffed_;  // positions in `bytes_` before which a stuffed zero was left out
  std::unique_ptr<State[]> found_;  // the streams' one after another
  uint64_t first_ = 0;              // the number of its first MCU
  uint64_t num_ = 0;
  std::unique_ptr<uint32_t[]> begins_;  // first bit of each block, and of the one after the last
  std::unique_ptr<int16_t[]> means_;    // DC coefficient of each block
  uint64_t index_ = 0;                  // index in the stretch of the MCU found last
  std::array<uint32_t, kMaxComponents> last_dc_ = {};
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_SKIMMER_H_
