#include "cli/terminal_picture.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/decode/jpeg_pictures.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using ::testing::Not;
using ::testing::StartsWith;

PictureProtocol Detect(const std::map<std::string, std::string>& variables) {
  return DetectPictureProtocol([&](const std::string& name) {
    const auto it = variables.find(name);
    return it == variables.end() ? "" : it->second;
  });
}

TEST(TerminalPictureTest, TerminalsAreKnownByTheirVariables) {
  EXPECT_EQ(Detect({}), PictureProtocol::kOff);
  EXPECT_EQ(Detect({{"TERM", "xterm-256color"}}), PictureProtocol::kOff);
  EXPECT_EQ(Detect({{"TERM", "xterm-kitty"}}), PictureProtocol::kKitty);
  EXPECT_EQ(Detect({{"TERM", "xterm-256color"}, {"KITTY_WINDOW_ID", "1"}}),
            PictureProtocol::kKitty);
  EXPECT_EQ(Detect({{"TERM_PROGRAM", "iTerm.app"}}), PictureProtocol::kIterm);
  EXPECT_EQ(Detect({{"TERM_PROGRAM", "WezTerm"}}), PictureProtocol::kIterm);
  EXPECT_EQ(Detect({{"LC_TERMINAL", "iTerm2"}}), PictureProtocol::kIterm);
  EXPECT_EQ(Detect({{"TERM", "foot"}}), PictureProtocol::kSixel);
  EXPECT_EQ(Detect({{"TERM", "mlterm"}}), PictureProtocol::kSixel);
  EXPECT_EQ(Detect({{"TERM_PROGRAM", "mintty"}}), PictureProtocol::kSixel);
  EXPECT_EQ(Detect({{"TERM", "tmux-256color"}, {"KITTY_WINDOW_ID", "1"}}), PictureProtocol::kOff);
  EXPECT_EQ(Detect({{"TERM", "screen"}, {"LC_TERMINAL", "iTerm2"}}), PictureProtocol::kOff);
}

TEST(TerminalPictureTest, KittyGetsPixelsInPieces) {
  const std::vector<uint8_t> pixels = {255, 0, 1, 2, 3, 4};
  EXPECT_EQ(KittyRgb(pixels.data(), 2, 1), "\x1b_Ga=T,f=24,s=2,v=1,m=0;/wABAgME\x1b\\\n");
  const std::vector<uint8_t> many(3 * 64 * 20, 7);
  const std::string shown = KittyRgb(many.data(), 64, 20);
  EXPECT_THAT(shown, StartsWith("\x1b_Ga=T,f=24,s=64,v=20,m=1;"));
  EXPECT_THAT(shown, HasSubstr("\x1b\\\x1b_Gm=0;"));
}

TEST(TerminalPictureTest, SixelsOfSixRowsEach) {
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

TEST(TerminalPictureTest, JpegsAreDecodedAndMadeSmall) {
  const std::string jpeg = MakeJpeg({.width = 2000, .height = 100});
  EXPECT_THAT(ShowPicture(jpeg, PictureProtocol::kKitty), StartsWith("\x1b_Ga=T,f=24,s=250,v=13,"));
  EXPECT_THAT(ShowPicture(jpeg, PictureProtocol::kSixel), StartsWith("\x1bPq\"1;1;250;13#"));
  EXPECT_THAT(ShowPicture(MakeJpeg({.width = 8000, .height = 16}), PictureProtocol::kSixel),
              StartsWith("\x1bPq\"1;1;334;1#"));
  EXPECT_EQ(DescribePicture(jpeg), "jpeg, 2000 x 100");
}

TEST(TerminalPictureTest, FilesGoToTerminalsThatDecodeThem) {
  const std::string png = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\3\0\0\0\4\x08\2\0\0\0"s;
  EXPECT_THAT(ShowPicture(png, PictureProtocol::kKitty), StartsWith("\x1b_Ga=T,f=100,m=0;iVBOR"));
  EXPECT_EQ(ShowPicture("GIF89a\3\0\2\0"s, PictureProtocol::kIterm),
            "\x1b]1337;File=inline=1;size=10;width=3px:R0lGODlhAwACAA==\a\n");
  EXPECT_EQ(DescribePicture(png), "png, 3 x 4");
}

TEST(TerminalPictureTest, WhatCannotBeShownIsNot) {
  const std::string jpeg = MakeJpeg({.width = 20, .height = 10});
  for (const PictureProtocol protocol : {PictureProtocol::kOff, PictureProtocol::kKitty,
                                         PictureProtocol::kIterm, PictureProtocol::kSixel}) {
    EXPECT_EQ(ShowPicture("text", protocol), "");
    EXPECT_EQ(ShowPicture("", protocol), "");
    EXPECT_EQ(ShowPicture(jpeg.substr(0, 20), protocol), "");
  }
  EXPECT_EQ(ShowPicture("GIF89a\3\0\2\0"s, PictureProtocol::kSixel), "");
  EXPECT_EQ(ShowPicture(jpeg, PictureProtocol::kOff), "");
  EXPECT_EQ(DescribePicture("text"), "");
  // Of a damaged one, what there is.
  EXPECT_THAT(ShowPicture(jpeg.substr(0, jpeg.size() - 50), PictureProtocol::kKitty),
              Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace shardfeed
