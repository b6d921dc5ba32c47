#include "media/jxl_header.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "media/image_header.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

// Writes bits, the lowest of a byte first.
class Bits {
 public:
  Bits& Add(uint32_t value, int bits) {
    for (int i = 0; i < bits; ++i) {
      if (count_++ % 8 == 0) bytes_.push_back('\0');
      bytes_.back() = static_cast<char>(bytes_.back() | (value >> i & 1) << (count_ - 1) % 8);
    }
    return *this;
  }
  // A number with one of four ranges: its number, and the bits above its base.
  Bits& Range(uint32_t range, uint32_t above = 0, int bits = 0) {
    return Add(range, 2).Add(above, bits);
  }
  const std::string& bytes() const { return bytes_; }
  uint32_t count() const { return count_; }

 private:
  std::string bytes_;
  uint32_t count_ = 0;
};

std::string Codestream(const Bits& bits) { return "\xff\x0a" + bits.bytes(); }

std::string MakeBox(const std::string& type, const std::string& content) {
  const auto size = static_cast<uint8_t>(8 + content.size());
  return "\0\0\0"s + static_cast<char>(size) + type + content;
}
std::string Container(const std::string& boxes) {
  return std::string(kJxlContainer) + MakeBox("ftyp", "jxl \0\0\0\0jxl "s) + boxes;
}

JxlHeader Read(const std::string& file) {
  const absl::StatusOr<JxlHeader> header = ReadJxlHeader(file);
  EXPECT_TRUE(header.ok()) << header.status();
  return header.value_or(JxlHeader());
}

std::string ErrorOf(const std::string& file) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(file);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
  return std::string(header.status().message());
}

void ExpectSize(Bits size, uint32_t width, uint32_t height) {
  const JxlHeader header = Read(Codestream(size.Add(3, 2)));
  EXPECT_EQ(header.width, width);
  EXPECT_EQ(header.height, height);
  EXPECT_EQ(header.color_channels, 3u);
  EXPECT_EQ(header.extra_channels, 0u);
  EXPECT_EQ(header.orientation, 1);
}

// 8 x 8 pixels, followed by metadata.
Bits Small() { return Bits().Add(1, 1).Add(0, 5).Add(1, 3); }

TEST(JxlHeaderTest, ReadsSizes) {
  ExpectSize(Bits().Add(1, 1).Add(31, 5).Add(0, 3).Add(4, 5), 40, 256);
  ExpectSize(Bits().Add(0, 1).Range(0, 42, 9).Add(0, 3).Range(0, 60, 9), 61, 43);
  ExpectSize(Bits().Add(0, 1).Range(1, 5000, 13).Add(0, 3).Range(2, 200000, 18), 200001, 5001);
  ExpectSize(Bits().Add(0, 1).Range(3, 0x3fffffff, 30).Add(0, 3).Range(0, 0, 9), 1, 1 << 30);
  const uint32_t widths[] = {90, 108, 120, 135, 160, 112, 180};  // for a height of 90
  for (uint32_t ratio = 1; ratio <= 7; ++ratio) {
    ExpectSize(Bits().Add(0, 1).Range(0, 89, 9).Add(ratio, 3), widths[ratio - 1], 90);
  }
}

TEST(JxlHeaderTest, ReadsOrientationBehindOtherSizes) {
  for (uint32_t orientation = 1; orientation <= 8; ++orientation) {
    Bits bits = Small().Add(0, 1).Add(1, 1).Add(orientation - 1, 3);
    bits.Add(1, 1).Add(1, 1).Add(3, 5).Add(2, 3);                        // size to be shown in
    bits.Add(1, 1).Add(0, 1).Range(1, 7, 8).Add(0, 3).Range(0, 3, 6);    // preview
    bits.Add(1, 1).Range(2, 9, 10).Range(1).Range(3, 77, 32).Add(1, 1);  // animation
    bits.Add(1, 1).Range(1).Add(7, 4);                                   // floats
    bits.Add(1, 1).Range(0).Add(0, 1).Add(0, 1).Add(1, 1).Range(1);      // gray, with a profile
    bits.Add(0, 1).Add(0x5bf8, 16).Add(0, 16).Add(0, 1).Add(0, 16);      // brightness
    bits.Range(1, 3, 4);                                                 // extensions
    const JxlHeader header = Read(Codestream(bits));
    EXPECT_EQ(header.orientation, static_cast<int>(orientation));
    EXPECT_EQ(header.color_channels, 1u);
    EXPECT_EQ(header.width, 8u);
  }
}

TEST(JxlHeaderTest, CountsExtraChannels) {
  Bits bits = Small().Add(0, 1).Add(0, 1).Add(0, 1).Range(3, 15, 6).Add(1, 1);  // 16 bits
  bits.Range(2, 2, 4);                                                          // four:
  bits.Add(1, 1);                                                               // an alpha,
  bits.Add(0, 1).Range(0).Add(0, 1).Range(0).Range(0).Range(1, 2, 4);           // another, with
  bits.Add('m', 8).Add('e', 8).Add(1, 1);                                       // a name,
  bits.Add(0, 1).Range(2, 0, 4).Add(0, 1).Range(0).Range(3, 1, 3).Range(0);     // an ink,
  for (int i = 0; i < 4; ++i) bits.Add(0x3c00, 16);
  bits.Add(0, 1).Range(2, 3, 4).Add(0, 1).Range(0).Range(0).Range(0);    // and a filter
  bits.Range(2, 1, 4);                                                   //
  bits.Add(0, 1).Add(0, 1).Add(0, 1).Range(1);                           // gray,
  bits.Range(1).Add(0, 1).Range(2, 11, 4).Range(0).Add(0, 2).Add(1, 1);  // as sRGB
  const JxlHeader header = Read(Codestream(bits));
  EXPECT_EQ(header.extra_channels, 4u);
  EXPECT_EQ(header.color_channels, 1u);
  const absl::StatusOr<ImageHeader> image = ReadImageHeader(Codestream(bits));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->format, "jxl");
  EXPECT_EQ(image->channels, 0u);
  EXPECT_EQ(image->decoded_pixels(), 2u * 8 * 8);  // more than four channels
}

TEST(JxlHeaderTest, ReadsUpToTheEndOfTheHeader) {
  const Bits before = Bits(Small()).Add(0, 1).Add(0, 1).Add(0, 1).Range(0).Add(1, 1).Range(0);
  const auto point = [](Bits& bits) { bits.Range(0, 312700, 19).Range(1, 100, 19); };
  Bits custom = Bits(before).Add(0, 1).Add(0, 1).Add(0, 1).Range(0);
  custom.Range(2, 0, 4);  // a white of its own,
  point(custom);
  custom.Range(2, 0, 4);  // and colors,
  for (int i = 0; i < 3; ++i) point(custom);
  custom.Add(1, 1).Add(4545455, 24).Range(1);  // and a gamma
  const Bits xyb = Bits(before).Add(1, 1).Add(0, 1).Add(0, 1).Range(2, 0, 4).Range(0);
  for (const Bits& colors : {custom, xyb, Bits(before).Add(1, 1).Add(1, 1)}) {
    const Bits header = Bits(colors).Add(0, 2).Add(1, 1);
    EXPECT_EQ(Read(Codestream(header)).color_channels, 3u);
    if (header.count() % 8 == 0) continue;
    EXPECT_EQ(ErrorOf(Codestream(Bits(header).Add(1, 1))),
              "JPEG XL is damaged: bits that fill a byte of its header are not 0");
    // Where transforms follow, the header ends elsewhere.
    EXPECT_EQ(Read(Codestream(Bits(colors).Add(0, 2).Add(0, 1).Add(1, 1))).width, 8u);
  }
}

TEST(JxlHeaderTest, FindsTheCodestreamInBoxes) {
  const std::string codestream = Codestream(Bits().Add(0, 1).Range(0, 42, 9).Add(2, 3).Add(3, 2));
  for (const std::string& boxes :
       {MakeBox("Exif", "\0\0\0\0II*\0"s) + MakeBox("jxlc", codestream),
        MakeBox("jxlp", "\0\0\0\0"s + codestream.substr(0, 3)) + MakeBox("brob", "Exif") +
            MakeBox("jxlp", "\x80\0\0\x01"s + codestream.substr(3))}) {
    const JxlHeader header = Read(Container(boxes));
    EXPECT_EQ(header.height, 43u);
    EXPECT_EQ(header.width, 51u);
  }
}

TEST(JxlHeaderTest, SaysThatAFileEndsTooEarly) {
  const std::string codestream =
      Codestream(Bits().Add(0, 1).Range(0, 42, 9).Add(0, 3).Range(0, 60, 9).Add(3, 2));
  for (size_t size = 2; size < codestream.size(); ++size) {
    EXPECT_EQ(ErrorOf(codestream.substr(0, size)),
              "JPEG XL ends before its size, after " + std::to_string(size) + " bytes");
  }
  const std::string container = Container(MakeBox("jxlc", codestream));
  for (size_t size = 1; size < kJxlContainer.size(); ++size) {
    EXPECT_EQ(ErrorOf(container.substr(0, size)),
              "the file ends after " + std::to_string(size) + " bytes");
  }
  for (size_t size = kJxlContainer.size(); size < container.size(); ++size) {
    EXPECT_THAT(ErrorOf(container.substr(0, size)), HasSubstr("JPEG XL ends before its size"));
  }
  // 5000 channels, each of which has a long name.
  Bits many = Small().Add(0, 1).Add(0, 1).Add(0, 1).Range(0).Add(1, 1).Range(3, 4095, 12);
  for (int i = 0; i < 20; ++i) {
    many.Add(0, 1).Range(1).Add(0, 1).Range(0).Range(0).Range(3, 1023, 10);
  }
  EXPECT_THAT(ErrorOf(Codestream(many)), HasSubstr("JPEG XL ends before its size"));
}

TEST(JxlHeaderTest, RefusesWhatCannotBe) {
  EXPECT_EQ(ErrorOf(Codestream(Small().Add(3, 2).Add(16, 5))),
            "JPEG XL is damaged: bits that fill a byte of its header are not 0");
  EXPECT_EQ(ErrorOf(Container(MakeBox("jxlc", "\xff\xd8\xff"))),
            "JPEG XL is damaged: its codestream does not start with ff 0a");
  EXPECT_EQ(ErrorOf(Codestream(Bits().Add(0, 1).Range(3, 0x3fffffff, 30).Add(7, 3).Add(3, 2))),
            "JPEG XL says that it is 2147483648 pixels wide and 1073741824 high");
}

}  // namespace
}  // namespace shardfeed
