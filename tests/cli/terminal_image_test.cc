#include "cli/terminal/terminal_image.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/decode/jpeg_images.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using ::testing::Not;
using ::testing::StartsWith;

ImageProtocol Detect(const std::map<std::string, std::string>& variables) {
  return DetectImageProtocol([&](const std::string& name) {
    const auto it = variables.find(name);
    return it == variables.end() ? "" : it->second;
  });
}

TEST(TerminalImageTest, TerminalsAreKnownByTheirVariables) {
  EXPECT_EQ(Detect({}), ImageProtocol::kOff);
  EXPECT_EQ(Detect({{"TERM", "xterm-256color"}}), ImageProtocol::kOff);
  EXPECT_EQ(Detect({{"TERM", "xterm-kitty"}}), ImageProtocol::kKitty);
  EXPECT_EQ(Detect({{"TERM", "xterm-256color"}, {"KITTY_WINDOW_ID", "1"}}), ImageProtocol::kKitty);
  EXPECT_EQ(Detect({{"TERM_PROGRAM", "iTerm.app"}}), ImageProtocol::kIterm);
  EXPECT_EQ(Detect({{"TERM_PROGRAM", "WezTerm"}}), ImageProtocol::kIterm);
  EXPECT_EQ(Detect({{"LC_TERMINAL", "iTerm2"}}), ImageProtocol::kIterm);
  EXPECT_EQ(Detect({{"TERM", "foot"}}), ImageProtocol::kSixel);
  EXPECT_EQ(Detect({{"TERM", "mlterm"}}), ImageProtocol::kSixel);
  EXPECT_EQ(Detect({{"TERM_PROGRAM", "mintty"}}), ImageProtocol::kSixel);
  EXPECT_EQ(Detect({{"TERM", "tmux-256color"}, {"KITTY_WINDOW_ID", "1"}}), ImageProtocol::kOff);
  EXPECT_EQ(Detect({{"TERM", "screen"}, {"LC_TERMINAL", "iTerm2"}}), ImageProtocol::kOff);
}

TEST(TerminalImageTest, KittyGetsPixelsInPieces) {
  const std::vector<uint8_t> pixels = {255, 0, 1, 2, 3, 4};
  EXPECT_EQ(KittyRgb(pixels.data(), 2, 1), "\x1b_Ga=T,f=24,s=2,v=1,m=0;/wABAgME\x1b\\\n");
  const std::vector<uint8_t> many(3 * 64 * 20, 7);
  const std::string shown = KittyRgb(many.data(), 64, 20);
  EXPECT_THAT(shown, StartsWith("\x1b_Ga=T,f=24,s=64,v=20,m=1;"));
  EXPECT_THAT(shown, HasSubstr("\x1b\\\x1b_Gm=0;"));
}

TEST(TerminalImageTest, SixelsOfSixRowsEach) {
  // Black above white, in a column of 7 rows.
  std::vector<uint8_t> pixels(3 * 7, 0);
  pixels[18] = pixels[19] = pixels[20] = 255;
  const std::string shown = Sixels(pixels.data(), 1, 7);
  EXPECT_THAT(shown, StartsWith("\x1bPq\"1;1;1;7#0;2;0;0;0#1;2;0;0;20"));
  EXPECT_THAT(shown, HasSubstr("#215;2;100;100;100#0~-#215@-"));
  EXPECT_THAT(shown, EndsWith("-\x1b\\\n"));
  const std::vector<uint8_t> wide(3 * 100, 0);
  EXPECT_THAT(Sixels(wide.data(), 100, 1), HasSubstr("#0!100@-"));
}

TEST(TerminalImageTest, JpegsAreDecodedAndMadeSmall) {
  const std::string jpeg = MakeJpeg({.width = 2000, .height = 100});
  EXPECT_THAT(ShowImage(jpeg, ImageProtocol::kKitty), StartsWith("\x1b_Ga=T,f=24,s=250,v=13,"));
  EXPECT_THAT(ShowImage(jpeg, ImageProtocol::kSixel), StartsWith("\x1bPq\"1;1;250;13#"));
  EXPECT_THAT(ShowImage(MakeJpeg({.width = 8000, .height = 16}), ImageProtocol::kSixel),
              StartsWith("\x1bPq\"1;1;334;1#"));
  EXPECT_EQ(DescribeImage(jpeg), "jpeg, 2000 x 100");
}

TEST(TerminalImageTest, FilesGoToTerminalsThatDecodeThem) {
  const std::string png = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\3\0\0\0\4\x08\2\0\0\0"s;
  EXPECT_THAT(ShowImage(png, ImageProtocol::kKitty), StartsWith("\x1b_Ga=T,f=100,m=0;iVBOR"));
  EXPECT_EQ(ShowImage("GIF89a\3\0\2\0"s, ImageProtocol::kIterm),
            "\x1b]1337;File=inline=1;size=10;width=3px:R0lGODlhAwACAA==\a\n");
  EXPECT_EQ(DescribeImage(png), "png, 3 x 4");
}

TEST(TerminalImageTest, WhatCannotBeShownIsNot) {
  const std::string jpeg = MakeJpeg({.width = 20, .height = 10});
  for (const ImageProtocol protocol :
       {ImageProtocol::kOff, ImageProtocol::kKitty, ImageProtocol::kIterm, ImageProtocol::kSixel}) {
    EXPECT_EQ(ShowImage("text", protocol), "");
    EXPECT_EQ(ShowImage("", protocol), "");
    EXPECT_EQ(ShowImage(jpeg.substr(0, 20), protocol), "");
  }
  EXPECT_EQ(ShowImage("GIF89a\3\0\2\0"s, ImageProtocol::kSixel), "");
  EXPECT_EQ(ShowImage(jpeg, ImageProtocol::kOff), "");
  EXPECT_EQ(DescribeImage("text"), "");
  // A damaged image is shown as far as it can be decoded.
  EXPECT_THAT(ShowImage(jpeg.substr(0, jpeg.size() - 50), ImageProtocol::kKitty),
              Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace shardfeed
