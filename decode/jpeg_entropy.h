// A decoder of the entropy-coded data of sequential JPEGs, which can start in the middle.
//
// It yields what libjpeg's yields, faster, and MCUs that nobody wants cost less: their coefficients
// are not stored, and whole restart intervals are jumped over. Format: ITU-T T.81, annex F.2.2.

#ifndef SHARDFEED_DECODE_JPEG_ENTROPY_H_
#define SHARDFEED_DECODE_JPEG_ENTROPY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "decode/jpeg_layout.h"
#include "decode/restart_markers.h"

namespace shardfeed {

// Reuse one for many pictures: it keeps its memory, and tables that two pictures share are built
// once. Not thread safe.
class JpegEntropyDecoder {
 public:
  // Starts a picture, whose layout is `one_scan`; `jpeg` must outlive its decoding. False: a
  // Huffman table is missing or wrong.
  bool Start(std::string_view jpeg, const JpegLayout& layout);

  // Decodes the MCU of that number, in order of the rows; numbers must ascend. `blocks[i]` is where
  // the 64 coefficients of its i-th block go, row by row, which are zero before. Null: nobody wants
  // them.
  //
  // False: the data is damaged, or ends, on the way; the decoder is of no use until Start.
  bool Decode(uint64_t number, int16_t (*const* blocks)[64]);

  // Of that component the first coefficient of each block is enough, until Start.
  void WantMeansOnly(int component);

 private:
  // Codes up to this length are looked up at once, if they and their coefficient take no more than
  // kMaxSymbolBits: nearly all do. Three such symbols are decoded for each look at how many bits
  // there are.
  static constexpr int kLookupBits = 9;
  static constexpr int kMaxSymbolBits = 18;

  static constexpr int kEndOfBlock = 128;

  // What nobody wants is looked up several symbols at a time, as many as end within so many bits:
  // more in large pictures, whose tables need not leave room in the first-level cache for much
  // else.
  static constexpr int kRunBits = 12;
  static constexpr int kMaxRunBits = 14;
  // More than symbols of so many bits can go: 16 coefficients each, from the 63rd at most.
  static constexpr int kEndOfRun = 512;
  static_assert(63 + 16 * kMaxRunBits < kEndOfRun && kEndOfRun + 16 * kMaxRunBits < 1 << 12);
  static constexpr uint64_t kMcusOfLargePicture = 8192;  // 1448 x 1448 pixels
  // Making those tables takes about as long as they save in so many MCUs.
  static constexpr uint64_t kMcusWithoutRuns = 128;

  struct Table {
    bool is_dc = false;
    std::string source;  // the counts and symbols it is made from
    // By the next kLookupBits bits, in the bytes from the lowest: the bits of the code and of its
    // coefficient together; 1 + the zeros before the coefficient, or kEndOfBlock; the bits of the
    // coefficient, which is 0 if there are none; the bits of the code. All zero: a longer one.
    std::array<uint32_t, 1 << kLookupBits> lookup;
    // Of the codes of each length: one more than the last, filled up to 16 bits; what to add to a
    // code to have the index of its symbol.
    std::array<uint32_t, 17> limit;
    std::array<int32_t, 17> offset;
    // By the next `run_bits` bits: in the lowest 4 bits, how many of them are of symbols and
    // coefficients that end within them; above, how far these go together, and kEndOfRun if the
    // last of them is the end of a block.
    std::array<uint16_t, 1 << kMaxRunBits> runs;
    int run_bits = 0;  // 0: not made yet

    bool Build(std::string_view counts_and_symbols, bool is_dc);
    // What `lookup` would have for the next 16 bits; 0: they begin with no code.
    uint32_t Find(uint32_t bits) const;
    uint32_t EntryOf(int length, int symbol) const;
    void BuildRuns(int bits);
  };

  // The bits to come, from the highest of `buffer` on.
  struct Bits {
    uint64_t buffer = 0;
    int count = 0;
    int padding = 0;  // of `count`: zeros that stand for data that is not there
    const uint8_t* at = nullptr;
    const uint8_t* end = nullptr;

    void Refill();
    void RefillSlowly();
    uint32_t Peek(int n) const { return static_cast<uint32_t>(buffer >> (64 - n)); }
    // The coefficient whose `size` bits stand behind `skip` others; 0 for no bits.
    int32_t Coefficient(int skip, int size) const;
    void Consume(int n) {
      buffer <<= n;
      count -= n;
    }
  };

  struct Block {
    const Table* dc = nullptr;
    const Table* ac = nullptr;
    uint8_t component = 0;
    bool mean_only = false;
  };

  void StartInterval(size_t begin);
  bool EndsHere() const;
  bool JumpTo(uint64_t number);
  void UseRuns(bool build);
  void CountUnwanted();
  template <bool kStore>
  bool DecodeMcu(int16_t (*const* blocks)[64]);
  static bool SkipCoefficients(const Table& ac, Bits* bits);

  std::string_view jpeg_;
  RestartMarkers restarts_;
  std::array<std::array<Table, 4>, 2> tables_;
  std::array<Block, 10> blocks_;
  int num_blocks_ = 0;
  uint32_t restart_interval_ = 0;
  uint64_t num_mcus_ = 0;
  bool any_mean_only_ = false;
  uint64_t unwanted_ = 0;  // MCUs of which not all was wanted
  bool uses_runs_ = false;
  int run_bits_ = kRunBits;

  Bits bits_;
  std::array<uint32_t, 4> last_dc_ = {};
  uint64_t next_ = 0;          // the MCU that the bits to come are of
  uint64_t interval_end_ = 0;  // the first MCU behind the restart interval
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_JPEG_ENTROPY_H_
