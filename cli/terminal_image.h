// Images in terminals: what makes kitty, iTerm and terminals with sixels show one.
//
// Protocols: sw.kovidgoyal.net/kitty/graphics-protocol; iterm2.com/documentation-images.html; DEC's
// VT330/VT340 Programmer Reference Manual, volume 2, chapter 14.

#ifndef SHARDFEED_CLI_TERMINAL_IMAGE_H_
#define SHARDFEED_CLI_TERMINAL_IMAGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace shardfeed {

enum class ImageProtocol { kOff, kKitty, kIterm, kSixel };

// What the terminal understands, by the variables of the environment it sets: TERM, TERM_PROGRAM,
// LC_TERMINAL, KITTY_WINDOW_ID. kOff inside of tmux and screen, which pass nothing on unasked.
// `variable` gives the value of one, or nothing.
ImageProtocol DetectImageProtocol(
    const std::function<std::string(const std::string& name)>& variable);

// The bytes that show the image `encoded`, a file, at a size that leaves room for text, and end
// the line. What the terminal does not decode itself is decoded here. Empty: it cannot be shown
// (no image, damaged, very large, or kOff).
std::string ShowImage(std::string_view encoded, ImageProtocol protocol);

// "jpeg, 500 x 375"; empty: not an image.
std::string DescribeImage(std::string_view encoded);

// For ShowImage, and its tests: `pixels` are RGB, row by row without gaps.
std::string KittyRgb(const uint8_t* pixels, uint32_t width, uint32_t height);
std::string Sixels(const uint8_t* pixels, uint32_t width, uint32_t height);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_IMAGE_H_
