#include "cli/terminal/terminal_image.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/rounding.h"
#include "decode/images/formats/codecs.h"
#include "decode/images/jpeg/jpeg.h"
#include "fmt/format.h"
#include "media/image_header.h"

namespace shardfeed {
namespace {

constexpr uint32_t kMaxWidth = 480;
constexpr uint32_t kMaxHeight = 320;

struct Rgb {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> pixels;
};

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

// Leaves `pixels` empty if the image cannot be decoded.
Rgb Decode(std::string_view bytes, const ImageHeader& header) {
  constexpr uint64_t kMaxPixels = uint64_t{1} << 24;
  Rgb whole;
  if (header.format != "jpeg") {
    if (uint64_t{header.width} * header.height > kMaxPixels) return whole;
    if (!DecodeWithCodec(bytes, header, 3, &whole.pixels).ok()) return {};
    whole.width = header.width;
    whole.height = header.height;
    return whole;
  }
  JpegCrop all;
  while (all.scale_denominator < 8 &&
         (CeilDivide(header.width, all.scale_denominator) > kMaxWidth ||
          CeilDivide(header.height, all.scale_denominator) > kMaxHeight)) {
    all.scale_denominator *= 2;
  }
  whole.width = all.width = CeilDivide(header.width, all.scale_denominator);
  whole.height = all.height = CeilDivide(header.height, all.scale_denominator);
  if (uint64_t{all.width} * all.height > kMaxPixels) return whole;
  whole.pixels.resize(size_t{3} * all.width * all.height);
  JpegDecoderOptions options;
  options.accept_damaged = true;
  JpegDecoder decoder(options);
  if (!decoder.DecodeCrop(bytes, all, whole.pixels.data(), size_t{3} * all.width).ok()) return {};
  return whole;
}

// Drops rows and columns of images that are too large: a preview does not need filtering.
Rgb ThinOut(Rgb whole) {
  const uint32_t step =
      std::max(CeilDivide(whole.width, kMaxWidth), CeilDivide(whole.height, kMaxHeight));
  if (step <= 1) return whole;
  Rgb small{CeilDivide(whole.width, step), CeilDivide(whole.height, step), {}};
  for (uint32_t y = 0; y < whole.height; y += step) {
    for (uint32_t x = 0; x < whole.width; x += step) {
      const uint8_t* pixel = &whole.pixels[size_t{3} * (size_t{y} * whole.width + x)];
      small.pixels.insert(small.pixels.end(), pixel, pixel + 3);
    }
  }
  return small;
}

// Returns the data in pieces, as the protocol requires; `control` holds the keys of the first
// piece.
std::string Kitty(const std::string& control, std::string_view bytes) {
  constexpr size_t kPiece = 4096;
  const std::string text = Base64(bytes);
  std::string out;
  for (size_t at = 0; at < text.size(); at += kPiece) {
    const bool last = at + kPiece >= text.size();
    out += fmt::format("\x1b_G{}m={};{}\x1b\\", at == 0 ? control + "," : "", last ? 0 : 1,
                       std::string_view(text).substr(at, kPiece));
  }
  return out + "\n";
}

}  // namespace

ImageProtocol DetectImageProtocol(
    const std::function<std::string(const std::string& name)>& variable) {
  const std::string term = variable("TERM");
  const std::string program = variable("TERM_PROGRAM");
  if (term.starts_with("tmux") || term.starts_with("screen") || program == "tmux") {
    return ImageProtocol::kOff;
  }
  if (!variable("KITTY_WINDOW_ID").empty() || term == "xterm-kitty" || term == "xterm-ghostty" ||
      program == "ghostty") {
    return ImageProtocol::kKitty;
  }
  if (program == "iTerm.app" || program == "WezTerm" || variable("LC_TERMINAL") == "iTerm2") {
    return ImageProtocol::kIterm;
  }
  if (program == "mintty" || term.starts_with("foot") || term.starts_with("mlterm") ||
      term.starts_with("yaft") || term.starts_with("contour") || term.ends_with("-sixel")) {
    return ImageProtocol::kSixel;
  }
  return ImageProtocol::kOff;
}

std::string KittyRgb(const uint8_t* pixels, uint32_t width, uint32_t height) {
  return Kitty(fmt::format("a=T,f=24,s={},v={}", width, height),
               {reinterpret_cast<const char*>(pixels), size_t{3} * width * height});
}

std::string Sixels(const uint8_t* pixels, uint32_t width, uint32_t height) {
  // The palette is a cube of colors with 6 levels of each channel.
  constexpr int kLevels = 6;
  constexpr int kColors = kLevels * kLevels * kLevels;
  std::string out = fmt::format("\x1bPq\"1;1;{};{}", width, height);
  for (int c = 0; c < kColors; ++c) {
    out += fmt::format("#{};2;{};{};{}", c, c / (kLevels * kLevels) * 20,
                       c / kLevels % kLevels * 20, c % kLevels * 20);
  }
  // An ordered dither hides the steps between the levels.
  constexpr std::array<int, 16> kDither = {0, 8, 2, 10, 12, 4, 14, 6, 3, 11, 1, 9, 15, 7, 13, 5};
  std::vector<uint8_t> colors(size_t{6} * width);
  for (uint32_t top = 0; top < height; top += 6) {
    const uint32_t rows = std::min<uint32_t>(6, height - top);
    std::array<bool, kColors> used = {};
    for (uint32_t r = 0; r < rows; ++r) {
      for (uint32_t x = 0; x < width; ++x) {
        const uint8_t* pixel = pixels + size_t{3} * (size_t{top + r} * width + x);
        const int dither = kDither[(top + r) % 4 * 4 + x % 4];
        int color = 0;
        for (int k = 0; k < 3; ++k) {
          color = color * kLevels + (pixel[k] * (kLevels - 1) * 16 + dither * 255) / (255 * 16);
        }
        colors[size_t{r} * width + x] = static_cast<uint8_t>(color);
        used[color] = true;
      }
    }
    bool first = true;
    for (int c = 0; c < kColors; ++c) {
      if (!used[c]) continue;
      out += fmt::format("{}#{}", first ? "" : "$", c);
      first = false;
      for (uint32_t x = 0; x < width;) {
        const auto bits_at = [&](uint32_t column) {
          int bits = 0;
          for (uint32_t r = 0; r < rows; ++r) {
            bits |= (colors[size_t{r} * width + column] == c ? 1 : 0) << r;
          }
          return bits;
        };
        const int bits = bits_at(x);
        uint32_t run = 1;
        while (x + run < width && bits_at(x + run) == bits) ++run;
        const char sixel = static_cast<char>('?' + bits);
        out += run > 3 ? fmt::format("!{}{}", run, sixel) : std::string(run, sixel);
        x += run;
      }
    }
    out += '-';
  }
  return out + "\x1b\\\n";
}

std::string ShowImage(std::string_view encoded, ImageProtocol protocol) {
  if (protocol == ImageProtocol::kOff) return "";
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(encoded);
  if (!header.ok()) return "";
  if (protocol == ImageProtocol::kIterm) {
    return fmt::format("\x1b]1337;File=inline=1;size={};width={}px:{}\a\n", encoded.size(),
                       std::min(header->width, kMaxWidth), Base64(encoded));
  }
  if (protocol == ImageProtocol::kKitty && header->format == "png") {
    return Kitty("a=T,f=100", encoded);
  }
  Rgb decoded = Decode(encoded, *header);
  if (decoded.pixels.empty()) return "";
  const Rgb small = ThinOut(std::move(decoded));
  return protocol == ImageProtocol::kKitty
             ? KittyRgb(small.pixels.data(), small.width, small.height)
             : Sixels(small.pixels.data(), small.width, small.height);
}

std::string DescribeImage(std::string_view encoded) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(encoded);
  if (!header.ok()) return "";
  return fmt::format("{}, {} x {}", header->format, header->width, header->height);
}

}  // namespace shardfeed
