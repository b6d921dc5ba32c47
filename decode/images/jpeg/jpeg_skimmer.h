// Finds the beginnings of MCUs in entropy-coded data, and the DC coefficients of their blocks,
// faster than decoding them one after another.
//
// The position of a code is known only after the one before it was decoded, and the end of a block
// is hard to predict: a processor that decodes a single stream of codes mostly waits. So four
// streams are decoded side by side, without branches. The first begins at an MCU, the others
// anywhere, as if an MCU began there. Huffman codes are self-synchronizing: after some misread
// codes a stream arrives at the beginning of an MCU (in images, half of them within 2 MCUs and
// nearly all within 16). Its results from there on are used only once the stream before it arrives
// at the same beginning; until then, that stream goes on. So nothing in the result is guessed.

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

// Reuse one for many images: it keeps its memory, up to 0.9 MiB, and tables that consecutive images
// share are built once. Not thread-safe.
class JpegSkimmer {
 public:
  static constexpr int kMaxBlocks = 10;
  static constexpr int kMaxComponents = 4;

  struct Block {
    const JpegHuffmanTable* dc = nullptr;
    const JpegHuffmanTable* ac = nullptr;
    int component = 0;
  };

  // Begins at the start of `data`, which is entropy-coded and counts as ending at the first marker,
  // even a restart marker. `blocks` are the blocks of each MCU, up to kMaxBlocks of up to
  // kMaxComponents components; the blocks of a component share tables. `data` and the tables must
  // outlive the skimming. Skimming is faster if no MCU from `end` on is asked for.
  //
  // Streams synchronize at MCUs. If the blocks of several components have the same tables, a stream
  // that began within an MCU hardly ever synchronizes, and nothing is gained.
  void Start(std::string_view data, const Block* blocks, int num_blocks, uint64_t end);

  // Advances to MCU `number`; numbers must ascend. Returns false if the data before it is damaged
  // or ends, or if a difference of DC coefficients is larger than any in 8-bit images.
  bool Find(uint64_t number);

  // The DC coefficients of the blocks of the MCU that was found last.
  const int16_t* Means() const { return &means_[index_ * num_blocks_]; }
  // The first bit of each of these blocks, counted from bytes(), and then the end of the last one.
  const uint32_t* Begins() const { return &begins_[index_ * num_blocks_]; }
  // The offset in `data` of the first byte after that MCU, counting stuffed bytes.
  size_t End() const;
  // The data around that MCU, without stuffed bytes. From the beginning or end of a block, 16 bytes
  // can be read: the data is followed by zeros.
  const uint8_t* bytes() const { return bytes_.get(); }

 private:
  static constexpr int kStreams = 4;
  // Several codes are looked up at once, as many as end within this number of bits.
  static constexpr int kRunBits = 13;
  // Bytes of each stream in a stretch: with the results, everything stays in the L2 cache.
  static constexpr size_t kStreamBytes = 8192;
  static constexpr size_t kMinStreamBytes = 512;
  // Streams that are ahead may go on by up to this many bytes.
  static constexpr size_t kSlackBytes = kStreamBytes / 2;
  // Within this many bits a stream nearly always meets the next one.
  static constexpr uint64_t kMeetingBits = 2048;
  static constexpr size_t kMaxFound = 8192;  // blocks of a stream in a stretch
  static constexpr size_t kPadding = 16;     // readable bytes after the data, see bytes()
  static constexpr uint64_t kMaxSteps = 64;  // between checks of the streams' positions
  static constexpr uint64_t kMaxStepBits = 32;

  // The position of a stream, and what a run adds to it. From the lowest bit: 12 bits for the
  // difference of the DC coefficient to the previous one, plus kBias; 9 for the number of
  // coefficients of the block so far, 0 at its beginning; 2 unused; 1 that is set at the end of the
  // block; 40 for the number of bits read.
  using State = uint64_t;
  static constexpr int kCountShift = 12;
  static constexpr int kEndShift = 23;
  static constexpr int kBitsShift = 24;
  static constexpr State kDifferenceMask = (1 << kCountShift) - 1;
  static constexpr State kCountMask = 0x1ff << kCountShift;
  static constexpr State kBlockMask = (1 << kBitsShift) - 1;
  static constexpr int32_t kBias = 2048;
  static constexpr int kMaxDifferenceBits = 11;  // the most in 8-bit images
  // Set if a block is complete without an end code, has too many coefficients, or contains an
  // unknown run. Step then reads one code at a time.
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

  // Runs by the next kRunBits bits: at first those that start at the beginning of a block; from
  // kInBlock on, those that start at any other coefficient.
  static constexpr size_t kInBlock = size_t{1} << kRunBits;
  struct Runs {
    std::string dc_source;
    std::string ac_source;
    std::array<uint32_t, 2 * kInBlock> of_bits;

    void Build(const JpegHuffmanTable& dc, const JpegHuffmanTable& ac);
  };

  struct Stream {
    uint64_t begin = 0;  // bit at which an MCU begins, or is assumed to begin
    uint64_t goal = 0;   // bit at which to stop
    State state = 0;
    // The states at the ends of the blocks from `begin` on.
    State* found = nullptr;
    uint64_t num_found = 0;
    bool right = false;    // whether an MCU really begins at `begin`
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
  // The runs of consecutive blocks from the beginning of an MCU on, as many as a stream can pass
  // between two checks.
  std::array<const uint32_t*, kMaxBlocks + kMaxSteps + 1> runs_of_block_ = {};

  // The stretch that was skimmed last, which begins at an MCU.
  size_t source_ = 0;                 // the byte of `data_` that it begins in
  std::unique_ptr<uint8_t[]> bytes_;  // data without the zeros stuffed after 0xff
  uint64_t limit_ = 0;                // size of that data in bits
  bool at_end_ = false;               // no data follows
  std::vector<uint32_t> stuffed_;  // positions in `bytes_` before which a stuffed zero was left out
  std::unique_ptr<State[]> found_;  // states of all streams, one after another
  uint64_t first_ = 0;              // the number of its first MCU
  uint64_t num_ = 0;
  std::unique_ptr<uint32_t[]> begins_;  // first bit of each block, and of the one after the last
  std::unique_ptr<int16_t[]> means_;    // DC coefficient of each block
  uint64_t index_ = 0;                  // index in the stretch of the MCU found last
  std::array<uint32_t, kMaxComponents> last_dc_ = {};
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_SKIMMER_H_
