#include "media/heif_header.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "media/image_header.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

std::string Numbers(std::initializer_list<int64_t> numbers) {
  std::string bytes;
  for (int64_t number : numbers) {
    for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(number >> shift));
  }
  return bytes;
}

std::string MakeBox(const std::string& type, const std::string& content) {
  return Numbers({static_cast<int64_t>(8 + content.size())}) + type + content;
}

std::string Size(int64_t width, int64_t height) {
  return MakeBox("ispe", Numbers({0, width, height}));
}
// Width, height, and how far the middle is to the right and down, each a fraction.
std::string Clap(const std::array<int64_t, 8>& n) {
  return MakeBox("clap", Numbers({n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]}));
}
std::string Rotation(char quarters) { return MakeBox("irot", {quarters}); }
std::string Mirror(char axis) { return MakeBox("imir", {axis}); }

// An AVIF file without pixels, whose image has these properties in this order.
std::string File(const std::vector<std::string>& properties) {
  std::string all;
  std::string numbers;
  for (const std::string& property : properties) {
    all += property;
    numbers.push_back(static_cast<char>(numbers.size() + 1));
  }
  const std::string associations =
      Numbers({0, 1}) + "\0\1"s + static_cast<char>(properties.size()) + numbers;
  return MakeBox("ftyp", "avif\0\0\0\0avif"s) +
         MakeBox("meta", Numbers({0}) + MakeBox("pitm", Numbers({0}) + "\0\1"s) +
                             MakeBox("iprp", MakeBox("ipco", all) + MakeBox("ipma", associations)));
}

// Left, top, width and height.
std::vector<uint32_t> PartOf(const std::vector<std::string>& properties) {
  const absl::StatusOr<HeifHeader> header = ReadHeifHeader(File(properties));
  EXPECT_TRUE(header.ok()) << header.status();
  if (!header.ok()) return {};
  return {header->left, header->top, header->width, header->height};
}

using Part = std::vector<uint32_t>;

TEST(HeifHeaderTest, ShowsThePartThatClapNames) {
  EXPECT_EQ(PartOf({Size(64, 48)}), (Part{0, 0, 64, 48}));
  EXPECT_EQ(PartOf({Size(64, 48), Clap({64, 1, 48, 1, 0, 1, 0, 1})}), (Part{0, 0, 64, 48}));
  // As libheif's encoder writes 61 x 43 pixels.
  EXPECT_EQ(PartOf({Size(64, 64), Clap({61, 1, 43, 1, -3, 2, -21, 2})}), (Part{0, 0, 61, 43}));
  EXPECT_EQ(PartOf({Size(64, 48), Clap({20, 2, 30, 3, 54, 2, -19, 1})}), (Part{54, 0, 10, 10}));
  // Halves of a pixel are rounded down on the left, up at the top and in sizes.
  EXPECT_EQ(PartOf({Size(64, 48), Clap({21, 1, 21, 1, 0, 1, 0, 1})}), (Part{21, 14, 21, 21}));
  EXPECT_EQ(PartOf({Size(64, 48), Clap({41, 2, 43, 2, 1, 4, 1, 4})}), (Part{22, 14, 21, 22}));
  EXPECT_EQ(PartOf({Size(64, 48), Clap({63, 1, 47, 1, -1, 1, -1, 1})}), (Part{0, 0, 63, 47}));
  // The largest numbers: a pixel, a little more than one away from the middle.
  constexpr int64_t kMost = INT32_MAX;
  EXPECT_EQ(PartOf({Size(64, 48),
                    Clap({kMost, kMost, kMost, kMost, -kMost - 1, kMost, -kMost - 1, kMost})}),
            (Part{30, 22, 1, 1}));
}

TEST(HeifHeaderTest, SizesAreOfThePartThatIsShown) {
  const std::string file = File({Size(64, 48), Clap({10, 1, 20, 1, 0, 1, 0, 1})});
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(file);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->format, "avif");
  EXPECT_EQ(header->width, 10u);
  EXPECT_EQ(header->height, 20u);
  EXPECT_EQ(header->hidden_pixels, 64u * 48 - 10 * 20);
  EXPECT_EQ(header->decoded_pixels(), 64u * 48);
}

TEST(HeifHeaderTest, CropsAndTurnsInTheOrderOfTheProperties) {
  const std::string size = Size(64, 48);
  const std::string corner = Clap({10, 1, 20, 1, -27, 1, -14, 1});  // at the top and left
  EXPECT_EQ(PartOf({size, corner, Rotation(1)}), (Part{0, 0, 10, 20}));
  EXPECT_EQ(PartOf({size, Mirror(1), corner}), (Part{54, 0, 10, 20}));
  EXPECT_EQ(PartOf({size, Mirror(0), corner}), (Part{0, 28, 10, 20}));
  EXPECT_EQ(PartOf({size, Rotation(2), corner}), (Part{54, 28, 10, 20}));
  // Turned to the left, 48 x 64 pixels, whose top left was the top right.
  const std::string turned = Clap({10, 1, 20, 1, -19, 1, -22, 1});
  EXPECT_EQ(PartOf({size, Rotation(1), turned}), (Part{44, 0, 20, 10}));
  EXPECT_EQ(PartOf({size, Rotation(3), turned}), (Part{0, 38, 20, 10}));
  // A part of a part.
  EXPECT_EQ(PartOf({size, Clap({32, 1, 32, 1, 16, 1, 8, 1}), Clap({8, 1, 8, 1, 0, 1, 0, 1})}),
            (Part{44, 28, 8, 8}));
}

TEST(HeifHeaderTest, TellsWhatTurnsAnImageWithAlpha) {
  const std::string properties = Size(64, 48) + Rotation(1) +
                                 MakeBox("auxC", Numbers({0}) + "urn:mpeg:hevc:2015:auxid:1") +
                                 Mirror(0);
  for (const bool wide : {false, true}) {
    const auto number = [&](int index) {
      return wide ? "\x80"s + static_cast<char>(index) : std::string(1, static_cast<char>(index));
    };
    // Item 1 is turned, its alpha 2 is turned and mirrored, and 3 belongs to neither.
    const std::string associations = Numbers({wide ? 1 : 0, 3}) + "\0\1\2"s + number(1) +
                                     number(2) + "\0\2\4"s + number(1) + number(3) + number(2) +
                                     number(4) + "\0\3\1"s + number(2);
    const std::string iprp =
        MakeBox("iprp", MakeBox("ipco", properties) + MakeBox("ipma", associations));
    const std::string references = MakeBox("iref", Numbers({0}) + MakeBox("auxl", "\0\2\0\1\0\1"s));
    for (const bool alpha : {false, true}) {
      std::string file = MakeBox("meta", Numbers({0}) + MakeBox("pitm", Numbers({0}) + "\0\1"s) +
                                             iprp + (alpha ? references : ""));
      const absl::StatusOr<HeifHeader> header = ReadHeifHeader(file);
      ASSERT_TRUE(header.ok()) << header.status();
      EXPECT_EQ(header->orientation, 8);
      ASSERT_EQ(header->turns.size(), alpha ? (wide ? 6u : 3u) : 0u);
      for (size_t at : header->turns) file.at(at) = '\0';
      const absl::StatusOr<HeifHeader> unturned = ReadHeifHeader(file);
      ASSERT_TRUE(unturned.ok()) << unturned.status();
      EXPECT_EQ(unturned->orientation, alpha ? 1 : 8);
      EXPECT_EQ(unturned->turns, std::vector<size_t>());
    }
  }
}

TEST(HeifHeaderTest, RefusesAPartThatDoesNotExist) {
  const int64_t big = int64_t{1} << 31;
  const std::vector<std::array<int64_t, 8>> parts = {
      {10, 0, 20, 1, 0, 1, 0, 1},       // divisors of zero
      {10, 1, 20, 0, 0, 1, 0, 1},       //
      {10, 1, 20, 1, 0, 0, 0, 1},       //
      {10, 1, 20, 1, 0, 1, 0, 0},       //
      {0, 1, 20, 1, 0, 1, 0, 1},        // no pixels
      {10, 1, 1, 3, 0, 1, 0, 1},        //
      {65, 1, 20, 1, 0, 1, 0, 1},       // more than there are
      {10, 1, 49, 1, 0, 1, 0, 1},       //
      {10, 1, 20, 1, -28, 1, 0, 1},     // beside the image
      {10, 1, 20, 1, 28, 1, 0, 1},      //
      {10, 1, 20, 1, 0, 1, -15, 1},     //
      {10, 1, 20, 1, 0, 1, 15, 1},      //
      {big - 1, 1, 20, 1, 0, 1, 0, 1},  // numbers that overflow
      {big, 1, 20, 1, 0, 1, 0, 1},      //
      {2 * big - 1, 2 * big - 1, 20, 1, 0, 1, 0, 1},
      {10, 1, 20, 1, big - 1, 1, 0, 1},  //
      {10, 1, 20, 1, -big, 1, -big, 1},  //
      {big - 1, 1, big - 1, 1, -big, big - 1, -big, big - 1},
  };
  for (const auto& part : parts) {
    const absl::StatusOr<HeifHeader> header = ReadHeifHeader(File({Size(64, 48), Clap(part)}));
    ASSERT_FALSE(header.ok()) << ::testing::PrintToString(part);
    EXPECT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(std::string(header.status().message()),
              "is damaged: the part that it shows (clap) is not in its 64 x 48 pixels");
  }
  const std::string cut = MakeBox("clap", Numbers({10, 1, 20, 1, 0, 1, 0}));
  EXPECT_FALSE(ReadHeifHeader(File({Size(64, 48), cut})).ok());
  EXPECT_THAT(std::string(ReadImageHeader(File({Size(64, 48), cut})).status().message()),
              HasSubstr("AVIF is damaged: the part that it shows"));
}

TEST(HeifHeaderTest, RefusesAnImageWithoutASize) {
  EXPECT_THAT(std::string(ReadHeifHeader(File({})).status().message()),
              HasSubstr("its header does not tell its size"));
  EXPECT_THAT(std::string(ReadHeifHeader(File({Size(3, 0)})).status().message()),
              HasSubstr("its header does not tell its size"));
  EXPECT_EQ(std::string(ReadHeifHeader(File({Size(3, int64_t{1} << 31)})).status().message()),
            "says that it is 3 pixels wide and 2147483648 high");
}

}  // namespace
}  // namespace shardfeed
