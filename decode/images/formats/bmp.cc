#include "decode/images/formats/bmp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>

#include "decode/images/pixels/colors.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr size_t kFileHeader = 14;
constexpr uint32_t kOs2Header = 12;  // header with 16-bit sizes and counts
constexpr uint32_t kOs2LongHeader = 64;
constexpr uint32_t kInfoHeader = 40;
constexpr uint32_t kAlphaHeader = 56;  // the first with a mask for alpha

enum Compression : uint32_t {
  kPlain = 0,
  kRle8 = 1,
  kRle4 = 2,
  kBitFields = 3,
  kAlphaBitFields = 6,
};

using Rgb = std::array<uint8_t, 3>;

// The little-endian integer of `size` bytes at `at`; bytes past the end are 0.
uint32_t Load(std::string_view bytes, uint64_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size && at + i < bytes.size(); ++i) {
    value |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  }
  return value;
}

struct Layout {
  explicit Layout(std::string_view bytes)
      : offset(Load(bytes, 10, 4)), info_bytes(Load(bytes, kFileHeader, 4)) {
    if (info_bytes == kOs2Header) {
      planes = Load(bytes, kFileHeader + 8, 2);
      bits = Load(bytes, kFileHeader + 10, 2);
      return;
    }
    planes = Load(bytes, kFileHeader + 12, 2);
    bits = Load(bytes, kFileHeader + 14, 2);
    top_down = static_cast<int32_t>(Load(bytes, kFileHeader + 8, 4)) < 0;
    // The shortest forms of OS/2's long header end here.
    if (info_bytes < kInfoHeader) return;
    compression = Load(bytes, kFileHeader + 16, 4);
    num_colors = Load(bytes, kFileHeader + 32, 4);
  }

  bool masked() const { return compression == kBitFields || compression == kAlphaBitFields; }
  // Whether files with such fields exist, be they supported or not: 0 bits is that of JPEG and PNG
  // in BMP, 64 that of GDI+; 4 and 5 are JPEG and PNG, or runs of 24 bits, 11 to 13 are for CMYK.
  bool legal() const {
    const uint32_t all_bits[] = {0, 1, 2, 4, 8, 16, 24, 32, 64};
    return planes == 1 && std::ranges::find(all_bits, bits) != std::end(all_bits) &&
           (compression <= kAlphaBitFields || (compression >= 11 && compression <= 13));
  }
  bool known() const {
    // In OS/2's long header, 3 and above are other compressions.
    if (info_bytes == kOs2LongHeader && compression > kRle4) return false;
    switch (compression) {
      case kPlain:
        return bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16 || bits == 24 ||
               bits == 32;
      case kRle8:
        return bits == 8;
      case kRle4:
        return bits == 4;
      default:
        return masked() && (bits == 16 || bits == 32);
    }
  }

  uint64_t offset;  // offset of the pixels
  uint32_t info_bytes;
  uint32_t planes = 1;
  uint32_t bits = 0;
  uint32_t compression = kPlain;
  uint32_t num_colors = 0;
  bool top_down = false;
};

std::array<Rgb, 256> ReadPalette(std::string_view bytes, const Layout& layout) {
  std::array<Rgb, 256> palette = {};
  const size_t entry = layout.info_bytes == kOs2Header ? 3 : 4;
  const uint64_t begin = kFileHeader + uint64_t{layout.info_bytes};
  const uint32_t all = uint32_t{1} << layout.bits;
  const uint32_t count = layout.num_colors == 0 ? all : std::min(all, layout.num_colors);
  for (uint32_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      palette[i][c] = static_cast<uint8_t>(Load(bytes, begin + entry * i + 2 - c, 1));
    }
  }
  return palette;
}

absl::Status CutOff(std::string_view bytes, uint64_t needed) {
  return absl::DataLossError(
      fmt::format("bmp is cut off: the file ends after {} bytes, and its image takes {}",
                  bytes.size(), needed));
}

// Decodes runs to palette indices, the bottom row first.
absl::Status ReadRuns(std::string_view bytes, const Layout& layout, const ImageHeader& header,
                      std::vector<uint8_t>* indices) {
  indices->assign(size_t{header.width} * header.height, 0);
  uint64_t at = layout.offset;
  uint64_t x = 0;
  uint64_t y = 0;
  const auto put = [&](uint32_t index) {
    if (x < header.width && y < header.height) (*indices)[y * header.width + x] = index;
    ++x;
  };
  while (y < header.height) {
    if (at + 2 > bytes.size()) return CutOff(bytes, at + 2);
    const uint32_t count = Load(bytes, at, 1);
    const uint32_t value = Load(bytes, at + 1, 1);
    at += 2;
    const auto nibble = [&](uint32_t byte, uint32_t i) {
      return layout.bits == 8 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15;
    };
    if (count > 0) {
      for (uint32_t i = 0; i < count; ++i) put(nibble(value, i));
    } else if (value == 0) {  // the end of a row
      x = 0;
      ++y;
    } else if (value == 1) {  // the end of the image
      break;
    } else if (value == 2) {  // a move to the right and up
      if (at + 2 > bytes.size()) return CutOff(bytes, at + 2);
      x += Load(bytes, at, 1);
      y += Load(bytes, at + 1, 1);
      at += 2;
    } else {  // `value` pixels follow, padded to 16 bits
      const uint64_t size = (uint64_t{value} * layout.bits + 7) / 8;
      if (at + size > bytes.size()) return CutOff(bytes, at + size);
      for (uint32_t i = 0; i < value; ++i) {
        put(nibble(Load(bytes, at + uint64_t{i} * layout.bits / 8, 1), i));
      }
      at += (size + 1) / 2 * 2;
    }
  }
  return absl::OkStatus();
}

// Extracts the channels of a pixel (red, green, blue, alpha) by bit masks.
class Masks {
 public:
  static absl::StatusOr<Masks> Of(std::string_view bytes, const Layout& layout) {
    Masks masks;
    if (layout.bits == 24 || (layout.bits == 32 && !layout.masked())) {
      masks.masks_ = {0xff0000, 0x00ff00, 0x0000ff};
    } else if (layout.masked()) {
      const bool alpha = layout.compression == kAlphaBitFields || layout.info_bytes >= kAlphaHeader;
      for (size_t i = 0; i < (alpha ? 4 : 3); ++i) {
        masks.masks_[i] = Load(bytes, kFileHeader + kInfoHeader + 4 * i, 4);
      }
    }
    for (size_t i = 0; i < 4; ++i) {
      const uint32_t mask = masks.masks_[i];
      masks.shifts_[i] = mask == 0 ? 0 : std::countr_zero(mask);
      masks.most_[i] = mask >> masks.shifts_[i];
      if ((masks.most_[i] & (masks.most_[i] + 1)) != 0) {
        return absl::DataLossError(fmt::format("bmp is damaged: its mask {:#x} has gaps", mask));
      }
    }
    return masks;
  }

  int channels() const { return masks_[3] == 0 ? 3 : 4; }
  int bits() const { return std::bit_width(*std::max_element(most_.begin(), most_.end())); }
  uint32_t Sample(uint32_t value, size_t channel) const {
    return (value & masks_[channel]) >> shifts_[channel];
  }
  Rgb Levels(uint32_t value) const {
    Rgb rgb = {};
    for (size_t i = 0; i < 3; ++i) {
      if (most_[i] == 0) continue;
      if (most_[i] == 255) {
        rgb[i] = static_cast<uint8_t>(Sample(value, i));  // saves the division
        continue;
      }
      rgb[i] = static_cast<uint8_t>(uint64_t{Sample(value, i)} * 255 / most_[i]);
    }
    return rgb;
  }

 private:
  std::array<uint32_t, 4> masks_ = {0x7c00, 0x03e0, 0x001f, 0};
  std::array<int, 4> shifts_ = {};
  std::array<uint32_t, 4> most_ = {};
};

// The pixels of an image: indices of a palette, or values to which masks apply.
class Pixels {
 public:
  static absl::StatusOr<Pixels> Of(std::string_view bytes, const Layout& layout,
                                   const ImageHeader& header) {
    Pixels pixels(bytes, layout, header);
    if (layout.compression == kRle8 || layout.compression == kRle4) {
      absl::Status status = ReadRuns(bytes, layout, header, &pixels.indices_);
      if (!status.ok()) return status;
    } else {
      const uint64_t end = layout.offset + pixels.row_bytes_ * (header.height - 1) +
                           (uint64_t{header.width} * layout.bits + 7) / 8;
      if (end > bytes.size()) return CutOff(bytes, end);
    }
    return pixels;
  }

  uint32_t At(uint32_t x, uint32_t line) const {
    const uint32_t y = top_down_ ? line : height_ - 1 - line;
    if (!indices_.empty()) return indices_[size_t{y} * width_ + x];
    const auto* const row =
        reinterpret_cast<const uint8_t*>(bytes_.data()) + offset_ + row_bytes_ * y;
    if (bits_ <= 8) {
      const uint64_t bit = uint64_t{x} * bits_;
      return row[bit / 8] >> (8 - bits_ - bit % 8) & ((1 << bits_) - 1);
    }
    const uint8_t* pixel = row + size_t{x} * (bits_ / 8);
    const uint32_t low = pixel[0] | uint32_t{pixel[1]} << 8;
    if (bits_ == 16) return low;
    return low | uint32_t{pixel[2]} << 16 | (bits_ == 32 ? uint32_t{pixel[3]} << 24 : 0);
  }

 private:
  Pixels(std::string_view bytes, const Layout& layout, const ImageHeader& header)
      : bytes_(bytes),
        offset_(layout.offset),
        row_bytes_((uint64_t{header.width} * layout.bits + 31) / 32 * 4),
        width_(header.width),
        height_(header.height),
        bits_(layout.bits),
        top_down_(layout.top_down) {}

  std::string_view bytes_;
  uint64_t offset_;
  uint64_t row_bytes_;
  uint32_t width_;
  uint32_t height_;
  uint32_t bits_;
  bool top_down_;
  std::vector<uint8_t> indices_;  // indices of run-length encoded images
};

absl::Status CheckKnown(const Layout& layout) {
  if (!layout.legal()) {
    return absl::DataLossError(
        fmt::format("bmp is damaged: its header says {} bits, {} planes and compression {}",
                    layout.bits, layout.planes, layout.compression));
  }
  if (layout.known()) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("bmp of {} bits with compression {}", layout.bits, layout.compression));
}

}  // namespace

absl::Status DecodeBmp(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels) {
  const Layout layout(bytes);
  if (absl::Status status = CheckKnown(layout); !status.ok()) return status;
  const absl::StatusOr<Masks> found_masks = Masks::Of(bytes, layout);
  if (!found_masks.ok()) return found_masks.status();
  const Masks& masks = *found_masks;
  const absl::StatusOr<Pixels> found_pixels = Pixels::Of(bytes, layout, header);
  if (!found_pixels.ok()) return found_pixels.status();
  const Pixels& stored = *found_pixels;
  const bool indexed = layout.bits <= 8;
  const std::array<Rgb, 256> palette =
      indexed ? ReadPalette(bytes, layout) : std::array<Rgb, 256>();
  pixels->resize(size_t{header.width} * header.height * channels);
  uint8_t* to = pixels->data();
  for (uint32_t y = 0; y < header.height; ++y) {
    for (uint32_t x = 0; x < header.width; ++x) {
      const uint32_t value = stored.At(x, y);
      const Rgb rgb = indexed ? palette[value] : masks.Levels(value);
      if (channels == 1) {
        *to++ = GrayOf(rgb[0], rgb[1], rgb[2]);
      } else {
        to = std::copy_n(rgb.data(), 3, to);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRawBmp(std::string_view bytes, const ImageHeader& header, RawSamples* samples) {
  const Layout layout(bytes);
  if (absl::Status status = CheckKnown(layout); !status.ok()) return status;
  const absl::StatusOr<Masks> found_masks = Masks::Of(bytes, layout);
  if (!found_masks.ok()) return found_masks.status();
  const Masks& masks = *found_masks;
  const bool indexed = layout.bits <= 8;
  const int channels = indexed ? 1 : masks.channels();
  const int bits = indexed ? 8 : masks.bits();
  if (bits > 16) return absl::UnimplementedError(fmt::format("bmp of {} bits a channel", bits));
  const absl::StatusOr<Pixels> found_pixels = Pixels::Of(bytes, layout, header);
  if (!found_pixels.ok()) return found_pixels.status();
  const Pixels& stored = *found_pixels;
  absl::Status status = samples->Start("bmp", header.width, header.height, channels, bits);
  if (!status.ok()) return status;
  for (uint32_t y = 0; y < header.height; ++y) {
    uint8_t* to = samples->row(y);
    for (uint32_t x = 0; x < header.width; ++x) {
      const uint32_t value = stored.At(x, y);
      for (int c = 0; c < channels; ++c, to += samples->sample_bytes()) {
        const auto sample = static_cast<uint16_t>(indexed ? value : masks.Sample(value, c));
        if (samples->sample_bytes() == 1) {
          *to = static_cast<uint8_t>(sample);
        } else {
          std::memcpy(to, &sample, sizeof(sample));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
