// Decodes the entropy-coded data of sequential JPEGs, from any MCU.
//
// The result is that of libjpeg, computed faster. MCUs that are not needed cost less: their
// coefficients are not stored, and whole restart intervals are skipped. Format: ITU-T T.81, annex
// F.2.2.

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

// Reuse one for many images: it keeps its memory, and tables that consecutive images share are
// built once. Not thread-safe.
class JpegEntropyDecoder {
 public:
  // Starts an image, whose layout must be `one_scan`; `jpeg` must outlive its decoding. Returns
  // false if a Huffman table is missing or invalid.
  bool Start(std::string_view jpeg, const JpegLayout& layout);

  // Decodes MCU `number`, counted row by row; numbers must ascend. The 64 coefficients of its i-th
  // block are stored row by row in `blocks[i]`, which must be zero before. With null, nothing is
  // stored.
  //
  // Returns false if the data is damaged or ends too early, or if anything but the end of the image
  // follows the last MCU. That does not mean that libjpeg would warn: it may skip what it finds.
  // After false, only Start may be called.
  bool Decode(uint64_t number, int16_t (*const* blocks)[64]);

  // Makes the first coefficient of each block enough for `component`, until Start.
  void WantMeansOnly(int component);

  // To be called after WantMeansOnly: announces that `num_wanted` of the MCUs before `end` will be
  // decoded. Speeds up decoding if they are few.
  void WantFewOf(uint64_t end, uint64_t num_wanted);

 private:
  // AC coefficients that are not needed are skipped by looking up several codes at once, as many as
  // end within this number of bits.
  static constexpr int kRunBits = 13;
  // More than kRunBits bits of codes can advance: 16 coefficients for each code, from at most the
  // 63rd.
  static constexpr int kEndOfRun = 512;
  static_assert(63 + 16 * kRunBits < kEndOfRun && kEndOfRun + 16 * kRunBits < 1 << 12);
  // Building these tables takes about as long as they save in this many MCUs.
  static constexpr uint64_t kMcusWithoutRuns = 128;
  // The same for the tables of a skimmer.
  static constexpr uint64_t kMinMcusToSkim = 2048;

  struct RunFormat {
    using Run = uint16_t;
    static Run Of(int used, int advance, bool end) {
      return static_cast<Run>(used | (end ? kEndOfRun : advance) << 4);
    }
  };

  struct Table {
    JpegHuffmanTable codes;
    // Indexed by the next kRunBits bits. The lowest 4 bits tell how many of these bits belong to
    // codes and coefficients that end within them; the bits above tell how many coefficients these
    // advance, plus kEndOfRun if the last one ends the block.
    std::array<uint16_t, 1 << kRunBits> runs;
    bool has_runs = false;

    void BuildRuns();
  };

  // The bits that follow, from the highest of `buffer` on.
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

  // The bits of data with stuffed bytes.
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
  uint64_t unwanted_ = 0;  // MCUs that were not needed completely
  bool uses_runs_ = false;
  JpegSkimmer skimmer_;
  bool skims_ = false;
  size_t scan_begin_ = 0;

  Bits bits_;
  std::array<uint32_t, 4> last_dc_ = {};
  uint64_t next_ = 0;          // the MCU that the next bits belong to
  uint64_t interval_end_ = 0;  // the first MCU after the restart interval
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_ENTROPY_H_
