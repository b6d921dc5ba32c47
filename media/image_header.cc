#include "media/image_header.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "media/heif_header.h"
#include "media/jpeg_markers.h"
#include "media/jxl_header.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kTiffLittle = "II*\0"sv;
constexpr std::string_view kTiffBig = "MM\0*"sv;
// Version 43, then the size of its pointers and a zero.
constexpr std::string_view kBigTiffLittle = "II+\0\x08\0\0\0"sv;
constexpr std::string_view kBigTiffBig = "MM\0+\0\x08\0\0"sv;

enum class Order { kLittle, kBig };

// The unsigned integer in `size` bytes at `offset`; nullopt if the file ends before its end.
std::optional<uint64_t> Load(std::string_view bytes, uint64_t offset, uint64_t size, Order order) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  uint64_t value = 0;
  for (uint64_t i = 0; i < size; ++i) {
    const uint64_t at = order == Order::kBig ? i : size - 1 - i;
    value = value << 8 | static_cast<unsigned char>(bytes[offset + at]);
  }
  return value;
}

absl::Status EndsEarly(std::string_view format, std::string_view bytes) {
  return absl::DataLossError(
      fmt::format("{} ends before its size, after {} bytes", format, bytes.size()));
}

absl::StatusOr<ImageHeader> Checked(std::string_view name, ImageHeader header) {
  if (header.width == 0 || header.height == 0) {
    return absl::DataLossError(fmt::format("{} says that it is {} pixels wide and {} high", name,
                                           header.width, header.height));
  }
  return header;
}

// Reads marker segments up to the first frame header. Damage before it is left to the decoder,
// which may have to accept it.
absl::StatusOr<ImageHeader> ReadJpeg(std::string_view bytes) {
  JpegMarkerReader reader(bytes);
  JpegMarker marker;
  while (reader.Next(&marker)) {
    if (marker.code == kJpegEoi || marker.code == kJpegSos) {
      if (!reader.defect().ok()) return reader.defect();
      return absl::DataLossError(
          fmt::format("JPEG is damaged at byte {}: {} comes before the image's size", marker.offset,
                      marker.code == kJpegEoi ? "its end" : "a scan"));
    }
    if (!IsJpegFrame(marker.code)) continue;
    const absl::StatusOr<JpegFrame> frame = ParseJpegFrame(marker);
    if (absl::IsOutOfRange(frame.status())) return EndsEarly("JPEG", bytes);
    if (!frame.ok()) return reader.defect().ok() ? frame.status() : reader.defect();
    return Checked("JPEG", {"jpeg", frame->height, frame->width, frame->num_components});
  }
  return reader.defect().ok() ? EndsEarly("JPEG", bytes) : reader.defect();
}

absl::StatusOr<ImageHeader> ReadPng(std::string_view bytes) {
  const std::string_view chunk = bytes.substr(8);
  if (chunk.size() >= 8 && chunk.substr(0, 8) != "\0\0\0\x0dIHDR"sv) {
    return absl::DataLossError("PNG does not start with its header (IHDR)");
  }
  const std::optional<uint64_t> width = Load(chunk, 8, 4, Order::kBig);
  const std::optional<uint64_t> height = Load(chunk, 12, 4, Order::kBig);
  const std::optional<uint64_t> color = Load(chunk, 17, 1, Order::kBig);
  if (!width || !height || !color) return EndsEarly("PNG", bytes);
  if (*width > INT32_MAX || *height > INT32_MAX) {
    return absl::DataLossError(
        fmt::format("PNG says that it is {} pixels wide and {} high", *width, *height));
  }
  uint32_t channels = 0;
  switch (*color) {
    case 0:
      channels = 1;
      break;
    case 2:
      channels = 3;
      break;
    case 3:  // a palette, which may have alpha
      break;
    case 4:
      channels = 2;
      break;
    case 6:
      channels = 4;
      break;
    default:
      return absl::DataLossError(fmt::format("PNG has the unknown color type {}", *color));
  }
  return Checked("PNG",
                 {"png", static_cast<uint32_t>(*height), static_cast<uint32_t>(*width), channels});
}

absl::StatusOr<ImageHeader> ReadGif(std::string_view bytes) {
  const std::optional<uint64_t> width = Load(bytes, 6, 2, Order::kLittle);
  const std::optional<uint64_t> height = Load(bytes, 8, 2, Order::kLittle);
  if (!width || !height) return EndsEarly("GIF", bytes);
  return Checked("GIF", {"gif", static_cast<uint32_t>(*height), static_cast<uint32_t>(*width), 0});
}

absl::StatusOr<ImageHeader> ReadBmp(std::string_view bytes) {
  const std::optional<uint64_t> header = Load(bytes, 14, 4, Order::kLittle);
  if (!header) return EndsEarly("BMP", bytes);
  const bool os2 = *header == 12;  // sizes and counts of 16 bits
  if (!os2 && *header != 16 && *header != 40 && *header != 52 && *header != 56 && *header != 64 &&
      *header != 108 && *header != 124) {
    return absl::DataLossError(
        fmt::format("not an image: starts like BMP, but with a header of {} bytes", *header));
  }
  const uint64_t field = os2 ? 2 : 4;
  const std::optional<uint64_t> width = Load(bytes, 18, field, Order::kLittle);
  const std::optional<uint64_t> height = Load(bytes, 18 + field, field, Order::kLittle);
  const std::optional<uint64_t> bits = Load(bytes, 18 + 2 * field + 2, 2, Order::kLittle);
  if (!width || !height || !bits) return EndsEarly("BMP", bytes);
  int64_t rows = static_cast<int64_t>(*height);
  if (!os2) {
    // Negative if the rows are stored from top to bottom.
    rows = static_cast<int32_t>(*height);
    rows = rows < 0 ? -rows : rows;
  }
  if (*width > INT32_MAX || rows > INT32_MAX) {
    return absl::DataLossError(
        fmt::format("BMP says that it is {} pixels wide and {} high", *width, rows));
  }
  // 16 and 32 bits may or may not have alpha, fewer have a palette.
  const uint32_t channels = *bits == 24 ? 3 : 0;
  return Checked("BMP",
                 {"bmp", static_cast<uint32_t>(rows), static_cast<uint32_t>(*width), channels});
}

absl::StatusOr<ImageHeader> ReadWebp(std::string_view bytes) {
  if (bytes.size() < 20) return EndsEarly("WebP", bytes);
  const std::string_view chunk = bytes.substr(12, 4);
  const std::string_view data = bytes.substr(20);
  if (chunk == "VP8 ") {
    if (data.size() < 10) return EndsEarly("WebP", bytes);
    if ((data[0] & 1) != 0 || data.substr(3, 3) != "\x9d\x01\x2a"sv) {
      return absl::DataLossError("WebP is damaged: it does not start with a key frame");
    }
    // 14 bits each; the two above them ask the viewer to scale.
    const uint64_t width = *Load(data, 6, 2, Order::kLittle) & 0x3fff;
    const uint64_t height = *Load(data, 8, 2, Order::kLittle) & 0x3fff;
    return Checked("WebP",
                   {"webp", static_cast<uint32_t>(height), static_cast<uint32_t>(width), 3});
  }
  if (chunk == "VP8L") {
    if (data.size() < 5) return EndsEarly("WebP", bytes);
    if (data[0] != '\x2f') {
      return absl::DataLossError("WebP is damaged: its lossless data has an unexpected signature");
    }
    const uint64_t fields = *Load(data, 1, 4, Order::kLittle);
    const uint32_t width = (fields & 0x3fff) + 1;
    const uint32_t height = (fields >> 14 & 0x3fff) + 1;
    return ImageHeader{"webp", height, width, (fields >> 28 & 1) != 0 ? 4u : 3u};
  }
  if (chunk == "VP8X") {
    if (data.size() < 10) return EndsEarly("WebP", bytes);
    const uint32_t width = *Load(data, 4, 3, Order::kLittle) + 1;
    const uint32_t height = *Load(data, 7, 3, Order::kLittle) + 1;
    return ImageHeader{"webp", height, width, (data[0] & 0x10) != 0 ? 4u : 3u};
  }
  return absl::DataLossError("WebP is damaged: its first chunk is not an image");
}

// Reads the first directory of tags. Classic TIFF counts and points with 2 and 4 bytes, BigTIFF
// with 8.
absl::StatusOr<ImageHeader> ReadTiff(std::string_view bytes, Order order, bool big) {
  const uint64_t word = big ? 8 : 4;
  const uint64_t entry_bytes = big ? 20 : 12;
  const std::optional<uint64_t> directory = Load(bytes, big ? 8 : 4, word, order);
  if (!directory) return EndsEarly("TIFF", bytes);
  const std::optional<uint64_t> entries = Load(bytes, *directory, big ? 8 : 2, order);
  if (!entries) return EndsEarly("TIFF", bytes);
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t samples = 1;
  bool palette = false;
  uint64_t at = *directory + (big ? 8 : 2);
  // The count is not trusted: the loop ends with the file.
  for (uint64_t i = 0; i < *entries; ++i, at += entry_bytes) {
    const std::optional<uint64_t> tag = Load(bytes, at, 2, order);
    const std::optional<uint64_t> type = Load(bytes, at + 2, 2, order);
    if (!tag || !type || at + entry_bytes > bytes.size()) return EndsEarly("TIFF", bytes);
    if (*tag != 256 && *tag != 257 && *tag != 262 && *tag != 277) continue;
    // SHORT, LONG and LONG8. Values that fit are stored at the front of the entry's value field.
    const uint64_t size = *type == 3 ? 2 : *type == 4 ? 4 : *type == 16 && big ? 8 : 0;
    if (size == 0) {
      return absl::DataLossError(
          fmt::format("TIFF is damaged at byte {}: tag {} has type {}", at, *tag, *type));
    }
    const uint64_t value = *Load(bytes, at + entry_bytes - word, size, order);
    if (*tag == 256) width = value;
    if (*tag == 257) height = value;
    if (*tag == 262) palette = value == 3;
    if (*tag == 277) samples = value;
  }
  if (width > INT32_MAX || height > INT32_MAX) {
    return absl::DataLossError(
        fmt::format("TIFF says that it is {} pixels wide and {} high", width, height));
  }
  const uint32_t channels = palette || samples > 4 ? 0 : static_cast<uint32_t>(samples);
  return Checked("TIFF",
                 {"tiff", static_cast<uint32_t>(height), static_cast<uint32_t>(width), channels});
}

absl::StatusOr<ImageHeader> ReadHeif(std::string_view format, std::string_view bytes) {
  const absl::StatusOr<HeifHeader> header = ReadHeifHeader(bytes);
  if (header.ok()) {
    const uint64_t stored = uint64_t{header->stored_width} * header->stored_height;
    return ImageHeader{format, header->height, header->width, header->channels,
                       stored - uint64_t{header->width} * header->height};
  }
  return absl::DataLossError(fmt::format("{} {}", format == "avif" ? "AVIF" : "HEIC",
                                         std::string(header.status().message())));
}

absl::StatusOr<ImageHeader> ReadJxl(std::string_view bytes) {
  const absl::StatusOr<JxlHeader> header = ReadJxlHeader(bytes);
  if (!header.ok()) {
    return absl::DataLossError(fmt::format("JPEG XL {}", std::string(header.status().message())));
  }
  const uint32_t channels = header->color_channels + header->extra_channels;
  ImageHeader found{"jxl", header->height, header->width, channels <= 4 ? channels : 0};
  if (channels > 4) {
    constexpr uint64_t kMost = uint64_t{1} << 62;  // keeps sums from overflowing
    const uint64_t pixels = uint64_t{header->width} * header->height;
    const uint64_t more = (channels - 1) / 4;
    found.hidden_pixels = pixels > kMost / more ? kMost : pixels * more;
  }
  return found;
}

// What files with a format's signature are that is not supported, or "".
std::string_view UnsupportedFormatOf(std::string_view bytes) {
  struct Signature {
    std::string_view bytes;
    std::string_view name;
  };
  constexpr Signature kSignatures[] = {
      {"\0\0\0\x0cjP  \r\n\x87\n"sv, "JPEG 2000"},
      {"\xff\x4f\xff\x51"sv, "JPEG 2000"},
      {"II\xbc\x01"sv, "JPEG XR"},
      {"DDS \x7c\0\0\0"sv, "DDS"},
      {"8BPS\0"sv, "PSD"},
      {"v/1\x01"sv, "OpenEXR"},
      {"#?RADIANCE\n"sv, "Radiance HDR"},
      {"#?RGBE\n"sv, "Radiance HDR"},
      {"qoif"sv, "QOI"},
      {"P7\nWIDTH "sv, "PAM"},
  };
  for (const Signature& signature : kSignatures) {
    if (bytes.starts_with(signature.bytes)) return signature.name;
  }
  // These signatures are short, so what follows is looked at, too.
  const auto at = [&](size_t i) { return i < bytes.size() ? bytes[i] : '\xff'; };
  const auto is_one_of = [](char c, std::string_view chars) {
    return chars.find(c) != std::string_view::npos;
  };
  if (at(0) == 'P' && is_one_of(at(1), "123456") && is_one_of(at(2), " \t\r\n") &&
      is_one_of(at(3), "#0123456789")) {
    return "PNM (PBM, PGM or PPM)";
  }
  // ICO or CUR, a number of images, and a byte of the first that is 0.
  if (bytes.size() >= 22 && (bytes.starts_with("\0\0\1\0"sv) || bytes.starts_with("\0\0\2\0"sv)) &&
      bytes.substr(4, 2) != "\0\0"sv && at(9) == 0) {
    return "ICO";
  }
  // Version, run lengths, and bits.
  if (bytes.size() >= 128 && at(0) == '\n' && is_one_of(at(1), "\0\2\3\4\5"sv) && at(2) == 1 &&
      is_one_of(at(3), "\1\2\4\x08"sv)) {
    return "PCX";
  }
  if (bytes.size() >= 12 && bytes.substr(4, 4) == "ftyp") {
    return "a video, or HEIF that is neither AVIF nor HEIC";
  }
  return "";
}

absl::Status NotAnImage(std::string_view bytes) {
  if (const std::string_view format = UnsupportedFormatOf(bytes); !format.empty()) {
    return absl::UnimplementedError(
        fmt::format("{}, which is not supported; convert it to JPEG or PNG", format));
  }
  std::string text;
  bool printable = true;
  for (char c : bytes.substr(0, 16)) {
    printable = printable && c >= ' ' && c <= '~';
    text.push_back(c);
  }
  if (printable) return absl::DataLossError(fmt::format("not an image: starts with \"{}\"", text));
  std::string hex;
  for (char c : bytes.substr(0, 8)) {
    hex += fmt::format("{}{:02x}", hex.empty() ? "" : " ", static_cast<unsigned char>(c));
  }
  return absl::DataLossError(fmt::format("not an image: starts with bytes {}", hex));
}

// Whether `bytes` are a proper prefix of a format's magic number, that is, a file that is cut off
// too early to tell its format.
bool IsCutMagic(std::string_view bytes) {
  for (std::string_view magic : {"\xff\xd8"sv, "\x89PNG\r\n\x1a\n"sv, "GIF87a"sv, "GIF89a"sv,
                                 "BM"sv, "RIFF"sv, kTiffLittle, kTiffBig, kJxlContainer}) {
    if (bytes.size() < magic.size() && magic.starts_with(bytes)) return true;
  }
  return (bytes.starts_with("RIFF") || bytes.substr(std::min<size_t>(4, bytes.size())) == "ftyp") &&
         bytes.size() < 12;
}

}  // namespace

std::string_view ImageFormatOf(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8"sv)) return "jpeg";
  if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv)) return "png";
  if (bytes.starts_with("GIF87a"sv) || bytes.starts_with("GIF89a"sv)) return "gif";
  if (bytes.starts_with("BM")) return "bmp";
  if (bytes.starts_with("RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") {
    return "webp";
  }
  for (std::string_view magic : {kTiffLittle, kTiffBig, kBigTiffLittle, kBigTiffBig}) {
    if (bytes.starts_with(magic)) return "tiff";
  }
  if (IsJxl(bytes)) return "jxl";
  return HeifFormatOf(bytes);
}

absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view bytes) {
  if (bytes.empty()) return absl::DataLossError("the file is empty");
  const std::string_view format = ImageFormatOf(bytes);
  if (format == "jpeg") return ReadJpeg(bytes);
  if (format == "png") return ReadPng(bytes);
  if (format == "gif") return ReadGif(bytes);
  if (format == "bmp") return ReadBmp(bytes);
  if (format == "webp") return ReadWebp(bytes);
  if (format == "tiff") {
    const bool big = bytes.starts_with(kBigTiffLittle) || bytes.starts_with(kBigTiffBig);
    return ReadTiff(bytes, bytes.front() == 'I' ? Order::kLittle : Order::kBig, big);
  }
  if (format == "avif" || format == "heic") return ReadHeif(format, bytes);
  if (format == "jxl") return ReadJxl(bytes);
  if (IsCutMagic(bytes)) {
    return absl::DataLossError(fmt::format("the file ends after {} bytes", bytes.size()));
  }
  return NotAnImage(bytes);
}

}  // namespace shardfeed
