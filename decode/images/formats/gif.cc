#include "decode/images/formats/gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "decode/images/pixels/colors.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

int ReadGifBytes(GifFileType* gif, GifByteType* to, int count) {
  auto& left = *static_cast<std::string_view*>(gif->UserData);
  const size_t n = std::min<size_t>(left.size(), count);
  std::memcpy(to, left.data(), n);
  left.remove_prefix(n);
  return static_cast<int>(n);
}

struct CloseGif {
  void operator()(GifFileType* gif) const { ::DGifCloseFile(gif, nullptr); }
};

// Reads the first image. Calls `start` before its pixels, which may return an error, with the
// palette index of the canvas around it and the colors, and `take` with each of its rows: its place
// in the canvas, the palette indices, and the colors.
template <class Start, class Take>
absl::Status ReadGif(std::string_view bytes, const ImageHeader& header, const Start& start,
                     const Take& take) {
  const auto damaged = [&](int error) {
    const char* text = ::GifErrorString(error);
    return absl::DataLossError(fmt::format("gif of {} bytes is cut off or damaged: {}",
                                           bytes.size(), text != nullptr ? text : "unknown"));
  };
  std::string_view left = bytes;
  int error = 0;
  const std::unique_ptr<GifFileType, CloseGif> gif(::DGifOpen(&left, ReadGifBytes, &error));
  if (gif == nullptr) return damaged(error);
  GifPixelType around = 0;
  while (true) {
    GifRecordType type;
    if (::DGifGetRecordType(gif.get(), &type) == GIF_ERROR) return damaged(gif->Error);
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    if (type == TERMINATE_RECORD_TYPE) return absl::DataLossError("gif without an image");
    int code;
    GifByteType* extension = nullptr;
    if (::DGifGetExtension(gif.get(), &code, &extension) == GIF_ERROR) return damaged(gif->Error);
    // A graphic control block: its size, flags, the delay, and the index that is transparent.
    if (code == GRAPHICS_EXT_FUNC_CODE && extension != nullptr && extension[0] >= 4) {
      around = (extension[1] & 1) != 0 ? extension[4] : 0;
    }
    while (extension != nullptr) {
      if (::DGifGetExtensionNext(gif.get(), &extension) == GIF_ERROR) return damaged(gif->Error);
    }
  }
  if (::DGifGetImageDesc(gif.get()) == GIF_ERROR) return damaged(gif->Error);
  const GifImageDesc& image = gif->Image;
  const ColorMapObject* colors = image.ColorMap != nullptr ? image.ColorMap : gif->SColorMap;
  if (colors == nullptr) return absl::DataLossError("gif without a color table");
  if (image.Left < 0 || image.Top < 0 || image.Width < 1 || image.Height < 1 ||
      uint64_t(image.Left) + image.Width > header.width ||
      uint64_t(image.Top) + image.Height > header.height) {
    return absl::DataLossError(
        fmt::format("gif has an image of {} x {} at ({}, {}), outside its canvas of {} x {}",
                    image.Width, image.Height, image.Left, image.Top, header.width, header.height));
  }
  if (absl::Status status = start(around, *colors); !status.ok()) return status;
  std::vector<GifPixelType> line(image.Width);
  const auto read_line = [&](int y) {
    if (::DGifGetLine(gif.get(), line.data(), image.Width) == GIF_ERROR) return false;
    take(size_t(image.Left), size_t(image.Top) + y, line, *colors);
    return true;
  };
  if (image.Interlace) {
    for (const auto& [first, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
      for (int y = first; y < image.Height; y += step) {
        if (!read_line(y)) return damaged(gif->Error);
      }
    }
  } else {
    for (int y = 0; y < image.Height; ++y) {
      if (!read_line(y)) return damaged(gif->Error);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeGif(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels) {
  // Writes the color of a palette index, and returns the end of what it wrote.
  const auto put = [channels](GifPixelType number, const ColorMapObject& colors, uint8_t* to) {
    const GifColorType color = number < colors.ColorCount ? colors.Colors[number] : GifColorType{};
    if (channels == 3) {
      to[0] = color.Red;
      to[1] = color.Green;
      to[2] = color.Blue;
    } else {
      to[0] = GrayOf(color.Red, color.Green, color.Blue);
    }
    return to + channels;
  };
  const auto start = [&](GifPixelType around, const ColorMapObject& colors) {
    pixels->resize(size_t{header.width} * header.height * channels);
    for (uint8_t* to = pixels->data(); to != pixels->data() + pixels->size();) {
      to = put(around, colors, to);
    }
    return absl::OkStatus();
  };
  return ReadGif(
      bytes, header, start,
      [&](size_t x, size_t y, const std::vector<GifPixelType>& line, const ColorMapObject& colors) {
        uint8_t* to = pixels->data() + (y * header.width + x) * channels;
        for (GifPixelType number : line) to = put(number, colors, to);
      });
}

absl::Status ReadRawGif(std::string_view bytes, const ImageHeader& header, RawSamples* samples) {
  return ReadGif(
      bytes, header,
      [&](GifPixelType around, const ColorMapObject&) {
        absl::Status status = samples->Start("gif", header.width, header.height, 1, 8);
        for (uint32_t y = 0; status.ok() && y < header.height; ++y) {
          std::fill_n(samples->row(y), header.width, around);
        }
        return status;
      },
      [&](size_t x, size_t y, const std::vector<GifPixelType>& line, const ColorMapObject&) {
        std::copy(line.begin(), line.end(), samples->row(y) + x);
      });
}

}  // namespace shardfeed
