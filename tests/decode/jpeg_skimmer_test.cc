#include "decode/images/jpeg/jpeg_skimmer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "decode/images/jpeg/jpeg_huffman.h"
#include "decode/images/jpeg/jpeg_layout.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/decode/jpeg_images.h"

namespace shardfeed {
namespace {

using ::shardfeed::testing::Coefficients;
using ::shardfeed::testing::JpegSpec;
using ::shardfeed::testing::MakeJpeg;

// The number of readable bytes from the beginning of a block.
constexpr size_t kReadable = 16;

// The expected result, decoded one code after another.
struct Reference {
  std::string bytes;  // without stuffed bytes, followed by zeros
  std::vector<int16_t> means;
  std::vector<uint64_t>
      begins;  // where each block begins and the last one ends, in bits without stuffed bytes
};

class JpegSkimmerTest : public ::testing::Test {
 protected:
  void Use(const std::string& jpeg) {
    jpeg_ = jpeg;
    const absl::StatusOr<JpegLayout> layout = ReadJpegLayout(jpeg_);
    ASSERT_TRUE(layout.ok()) << layout.status();
    ASSERT_TRUE(layout->one_scan);
    layout_ = *layout;
    blocks_.clear();
    for (int c = 0; c < layout->frame.num_components; ++c) {
      JpegSkimmer::Block block;
      block.component = c;
      for (int kind : {0, 1}) {
        const int number = kind == 0 ? layout->coding[c].dc : layout->coding[c].ac;
        JpegHuffmanTable& table = tables_[kind][number];
        ASSERT_TRUE(table.Build(layout->huffman[kind][number], kind == 0));
        (kind == 0 ? block.dc : block.ac) = &table;
      }
      const JpegFrame::Component& component = layout->frame.components[c];
      const int n = layout->frame.num_components == 1 ? 1 : component.h * component.v;
      blocks_.insert(blocks_.end(), n, block);
    }
  }

  std::string_view data() const { return std::string_view(jpeg_).substr(layout_.scan_begin); }

  // Decodes as far as the data is valid.
  Reference Decode() const {
    Reference reference;
    std::string bits;
    for (size_t i = 0; i < data().size(); ++i) {
      const auto byte = static_cast<uint8_t>(data()[i]);
      if (byte == 0xff && (i + 1 == data().size() || data()[i + 1] != 0)) break;
      reference.bytes += data()[i];
      for (int bit = 7; bit >= 0; --bit) bits += static_cast<char>(byte >> bit & 1);
      i += byte == 0xff;
    }
    const size_t size = bits.size();
    bits.append(64, 0);
    size_t at = 0;
    const auto take = [&](int n) {
      uint32_t value = 0;
      for (int i = 0; i < n; ++i) value = value << 1 | static_cast<uint8_t>(bits[at++]);
      return value;
    };
    reference.bytes.append(kReadable, 0);
    reference.begins = {0};
    std::array<int, 4> last_dc = {};
    for (uint64_t mcu = 0; mcu < layout_.num_mcus(); ++mcu) {
      for (const JpegSkimmer::Block& block : blocks_) {
        for (int k = 0; k < 64; ++k) {
          const JpegHuffmanTable& table = k == 0 ? *block.dc : *block.ac;
          const size_t begin = at;
          const uint32_t symbol = table.Find(take(16));
          if (symbol == 0) return reference;
          at = begin + JpegHuffmanTable::CodeLengthOf(symbol);
          const int length = JpegHuffmanTable::SizeOf(symbol);
          const auto value = static_cast<int>(take(length));
          // 8-bit images have no longer differences.
          if (at > size || (k == 0 && length > 11)) return reference;
          const int advance = JpegHuffmanTable::AdvanceOf(symbol);
          if (k == 0) {
            const bool negative = length > 0 && value < 1 << (length - 1);
            last_dc[block.component] += negative ? value - (1 << length) + 1 : value;
          } else if (advance >= JpegHuffmanTable::kEndOfBlock) {
            break;
          } else {
            k += advance - 1;
            if (k > 63) return reference;
          }
        }
        reference.means.push_back(static_cast<int16_t>(last_dc[block.component]));
        reference.begins.push_back(at);
      }
    }
    return reference;
  }

  // Skims the image in steps of up to `max_step` MCUs, as far as there are any.
  void Skim(const Reference& reference, uint64_t max_step, uint64_t end) {
    // AddressSanitizer detects reads past the end.
    const std::unique_ptr<char[]> exact = std::make_unique_for_overwrite<char[]>(data().size());
    std::copy(data().begin(), data().end(), exact.get());
    skimmer_.Start({exact.get(), data().size()}, blocks_.data(), static_cast<int>(blocks_.size()),
                   end);
    std::mt19937 random(static_cast<uint32_t>(max_step));
    const size_t n = blocks_.size();
    for (uint64_t mcu = random() % max_step; mcu < layout_.num_mcus();
         mcu += 1 + random() % max_step) {
      const bool there = reference.means.size() >= (mcu + 1) * n;
      EXPECT_EQ(skimmer_.Find(mcu), there) << "MCU " << mcu;
      if (!there || HasFailure()) break;
      EXPECT_TRUE(std::equal(skimmer_.Means(), skimmer_.Means() + n,
                             reference.means.begin() + static_cast<ptrdiff_t>(mcu * n)))
          << "MCU " << mcu;
      // A whole number of bytes precedes bytes().
      const uint64_t shift = reference.begins[mcu * n] - skimmer_.Begins()[0];
      EXPECT_EQ(shift % 8, 0) << "MCU " << mcu;
      for (size_t b = 0; b <= n; ++b) {
        const uint64_t begin = reference.begins[mcu * n + b];
        EXPECT_EQ(skimmer_.Begins()[b] + shift, begin) << "MCU " << mcu << " block " << b;
        EXPECT_EQ(std::memcmp(skimmer_.bytes() + skimmer_.Begins()[b] / 8,
                              reference.bytes.data() + begin / 8, kReadable),
                  0)
            << "MCU " << mcu << " block " << b;
      }
      if (HasFailure()) break;
    }
  }

  std::string jpeg_;
  JpegLayout layout_;
  std::array<std::array<JpegHuffmanTable, 4>, 2> tables_;
  std::vector<JpegSkimmer::Block> blocks_;
  JpegSkimmer skimmer_;
};

TEST_F(JpegSkimmerTest, FindsWhatDecodingFinds) {
  using Sampling = std::vector<std::pair<int, int>>;
  for (const Sampling& sampling :
       {Sampling{{2, 2}, {1, 1}, {1, 1}}, Sampling{{1, 1}, {1, 1}, {1, 1}},
        Sampling{{4, 2}, {1, 1}, {1, 1}}, Sampling{{1, 1}},
        Sampling{{2, 1}, {1, 1}, {1, 1}, {2, 1}}}) {
    for (int quality : {1, 50, 92, 100}) {
      for (bool optimized : {false, true}) {
        SCOPED_TRACE(fmt::format("{} blocks, quality {}, optimized {}", sampling.size(), quality,
                                 optimized));
        ASSERT_NO_FATAL_FAILURE(Use(MakeJpeg({.width = 800,
                                              .height = 600,
                                              .sampling = sampling,
                                              .quality = quality,
                                              .optimized = optimized})));
        const Reference reference = Decode();
        ASSERT_EQ(reference.means.size(), layout_.num_mcus() * blocks_.size());
        for (uint64_t max_step : {1, 40, 3000}) {
          Skim(reference, max_step, max_step == 40 ? 0 : layout_.num_mcus());
          ASSERT_FALSE(HasFailure()) << max_step;
        }
        skimmer_.Start(data(), blocks_.data(), static_cast<int>(blocks_.size()), 1);
        ASSERT_TRUE(skimmer_.Find(layout_.num_mcus() - 1));
      }
    }
  }
}

// Checks the reference itself against libjpeg.
TEST_F(JpegSkimmerTest, FindsWhatLibjpegFinds) {
  ASSERT_NO_FATAL_FAILURE(Use(MakeJpeg({.width = 640, .height = 480, .sampling = {{1, 1}}})));
  const std::vector<int16_t> coefficients = Coefficients(jpeg_);
  ASSERT_EQ(coefficients.size(), layout_.num_mcus() * 64);
  skimmer_.Start(data(), blocks_.data(), 1, layout_.num_mcus());
  for (uint64_t mcu = 0; mcu < layout_.num_mcus(); ++mcu) {
    ASSERT_TRUE(skimmer_.Find(mcu));
    ASSERT_EQ(skimmer_.Means()[0], coefficients[mcu * 64]) << mcu;
  }
}

// Blocks of few bits exhaust the room for results; if all are alike, streams may never synchronize.
TEST_F(JpegSkimmerTest, BlocksMayBeShortOrLong) {
  for (const JpegSpec& spec :
       {JpegSpec{.width = 2000,
       .height = 1500,
       .sampling = {{1, 1}},
       .quality = 50,
       .optimized = true,
       .last_coefficient_only = true},
        JpegSpec{.width = 4000, .height = 3000, .quality = 1, .optimized = true}}) {
    ASSERT_NO_FATAL_FAILURE(Use(MakeJpeg(spec)));
    const Reference reference = Decode();
    ASSERT_EQ(reference.means.size(), layout_.num_mcus() * blocks_.size());
    Skim(reference, 1, layout_.num_mcus());
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(JpegSkimmerTest, CutDataHasWhatIsBeforeTheCut) {
  const std::string jpeg = MakeJpeg({.width = 1000, .height = 700});
  std::mt19937 random(1);
  for (size_t i = 0; i < 60; ++i) {
    ASSERT_NO_FATAL_FAILURE(Use(jpeg));
    const size_t left = i < 20 ? i : random() % data().size();
    jpeg_.resize(layout_.scan_begin + left);
    const Reference reference = Decode();
    Skim(reference, 1, layout_.num_mcus());
    ASSERT_FALSE(HasFailure()) << left;
  }
}

TEST_F(JpegSkimmerTest, DamagedDataHasWhatIsBeforeTheDamage) {
  const std::string jpeg = MakeJpeg({.width = 1000, .height = 700, .optimized = true});
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_FATAL_FAILURE(Use(jpeg));
    const size_t at = layout_.scan_begin + random() % data().size();
    const size_t size = 1 + random() % 300;
    for (size_t k = at; k < std::min(at + size, jpeg_.size()); ++k) {
      jpeg_[k] = static_cast<char>(random());
    }
    const Reference reference = Decode();
    Skim(reference, 1, layout_.num_mcus());
    ASSERT_FALSE(HasFailure()) << at;
  }
}

}  // namespace
}  // namespace shardfeed
