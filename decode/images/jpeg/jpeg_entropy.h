// A decoder of the entropy-coded data of sequential JPEGs, which can start in the middle.
//
// It yields what libjpeg's yields, faster, and MCUs that nobody wants cost less: their coefficients
// are not stored, and whole restart intervals are jumped over. Format: ITU-T T.81, annex F.2.2.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_JPEG_ENTROPY_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_JPEG_ENTROPY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "decode/images/jpeg/jpeg_huffman.h"
#include "decode/images/jpeg/jpeg_layout.h"
#include "decode/images/jpeg/jpeg_skimmer.h"
#include "decode/images/jpeg/restart_markers.h"

namespace shardfeed {

// Reuse one for many images: it keeps its memory, and tables that two images share are built
// once. Not thread safe.
class JpegEntropyDecoder {
 public:
  // Starts an image, whose layout is `one_scan`; `jpeg` must outlive its decoding. False: a
  // Huffman table is missing or wrong.
  bool Start(std::string_view jpeg, const JpegLayout& layout);

  // Decodes the MCU of that number, in order of the rows; numbers must ascend. `blocks[i]` is where
  // the 64 coefficients of its i-th block go, row by row, which are zero before. Null: nobody wants
  // them.
  //
  // False: the data is damaged or ends on the way, or after the last MCU something other than the
  // end of the image follows. Whether libjpeg would warn of that is not said: it may skip what it
  // finds. The decoder is of no use until Start.
  bool Decode(uint64_t number, int16_t (*const* blocks)[64]);

  // Of that component the first coefficient of each block is enough, until Start.
  void WantMeansOnly(int component);

  // After WantMeansOnly: of the MCUs before `end` so many are wanted. That makes it faster where it
  // is few.
  void WantFewOf(uint64_t end, uint64_t num_wanted);

 private:
  // Of AC coefficients that nobody wants, codes are looked up several at a time, as many as end
  // within so many bits.
  static constexpr int kRunBits = 13;
  // More than codes of so many bits can go: 16 coefficients each, from the 63rd at most.
  static constexpr int kEndOfRun = 512;
  static_assert(63 + 16 * kRunBits < kEndOfRun && kEndOfRun + 16 * kRunBits < 1 << 12);
  // Making those tables takes about as long as they save in so many MCUs.
  static constexpr uint64_t kMcusWithoutRuns = 128;
  // And a skimmer's.
  static constexpr uint64_t kMinMcusToSkim = 2048;

  struct RunFormat {
    using Run = uint16_t;
    static Run Of(int used, int advance, bool end) {
      return static_cast<Run>(used | (end ? kEndOfRun : advance) << 4);
    }
  };

  struct Table {
    JpegHuffmanTable codes;
    // By the next kRunBits bits: in the lowest 4 bits, how many of them are of codes and
    // coefficients that end within them; above, how far these go together, and kEndOfRun if the
    // last of them is the end of a block.
    std::array<uint16_t, 1 << kRunBits> runs;
    bool has_runs = false;

    void BuildRuns();
  };

  // The bits to come, from the highest of `buffer` on.
  struct PlainBits {
    uint64_t buffer = 0;
    int count = 0;
    const uint8_t* at = nullptr;

    void Refill();
    uint32_t Peek(int n) const { return static_cast<uint32_t>(buffer >> (64 - n)); }
    void Consume(int n) {
      buffer <<= n;
      count -= n;
    }
  };

  // Those of data with stuffed bytes.
  struct Bits : PlainBits {
    int padding = 0;  // how many of `count` are zeros appended after the end of the data
    const uint8_t* end = nullptr;

    void Refill();
    void RefillSlowly();
  };

  struct Block {
    const Table* dc = nullptr;
    const Table* ac = nullptr;
    uint8_t component = 0;
    bool mean_only = false;
  };

  void StartInterval(size_t begin);
  bool EndsHere(bool of_image) const;
  bool JumpTo(uint64_t number);
  void UseRuns(bool build);
  void CountUnwanted();
  bool DecodeSkimmed(uint64_t number, int16_t (*const* blocks)[64]);
  template <bool kStore>
  bool DecodeMcu(int16_t (*const* blocks)[64]);
  static bool SkipCoefficients(const Table& ac, Bits* bits);
  template <bool kStore, typename AnyBits>
  static bool DecodeCoefficients(const JpegHuffmanTable& ac, AnyBits* bits, int16_t* coefficients);

  std::string_view jpeg_;
  RestartMarkers restarts_;
  std::array<std::array<Table, 4>, 2> tables_;
  std::array<Block, JpegSkimmer::kMaxBlocks> blocks_;
  int num_blocks_ = 0;
  uint32_t restart_interval_ = 0;
  uint64_t num_mcus_ = 0;
  bool any_mean_only_ = false;
  uint64_t unwanted_ = 0;  // MCUs of which not all was wanted
  bool uses_runs_ = false;
  JpegSkimmer skimmer_;
  bool skims_ = false;
  size_t scan_begin_ = 0;

  Bits bits_;
  std::array<uint32_t, 4> last_dc_ = {};
  uint64_t next_ = 0;          // the MCU that the bits to come are of
  uint64_t interval_end_ = 0;  // the first MCU behind the restart interval
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_ENTROPY_H_
