// Shows images in kitty, iTerm and terminals that support sixels.
//
// Protocols: sw.kovidgoyal.net/kitty/graphics-protocol; iterm2.com/documentation-images.html; DEC's
// VT330/VT340 Programmer Reference Manual, volume 2, chapter 14.

#ifndef SHARDFEED_CLI_TERMINAL_TERMINAL_IMAGE_H_
#define SHARDFEED_CLI_TERMINAL_TERMINAL_IMAGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace shardfeed {

enum class ImageProtocol { kOff, kKitty, kIterm, kSixel };

// Returns the protocol that the terminal understands, judging by environment variables: TERM,
// TERM_PROGRAM, LC_TERMINAL, KITTY_WINDOW_ID. Returns kOff inside tmux and screen, which do not
// pass images on by default. `variable` returns the value of a variable, empty if it is not set.
ImageProtocol DetectImageProtocol(
    const std::function<std::string(const std::string& name)>& variable);

// Returns the bytes that show the image file `encoded`, at a size that leaves room for text, and
// end the line. Formats that the terminal does not decode are decoded here. Returns an empty string
// if the image cannot be shown: not an image, damaged, very large, or kOff.
std::string ShowImage(std::string_view encoded, ImageProtocol protocol);

// Returns a description such as "jpeg, 500 x 375", or an empty string if `encoded` is not an image.
std::string DescribeImage(std::string_view encoded);

// Exposed for tests: `pixels` are RGB, row by row without gaps.
std::string KittyRgb(const uint8_t* pixels, uint32_t width, uint32_t height);
std::string Sixels(const uint8_t* pixels, uint32_t width, uint32_t height);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_TERMINAL_IMAGE_H_
