#include "decode/images/exif.h"

#include <algorithm>
#include <cstdint>

#include "media/heif_header.h"
#include "media/jpeg_markers.h"
#include "media/jxl_header.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExif = "Exif\0\0"sv;

// The orientation in the first directory after a TIFF header, or 0 if it has no valid one.
int OrientationOf(std::string_view tiff) {
  const bool big = tiff.starts_with("II+\0\x08\0\0\0"sv) || tiff.starts_with("MM\0+\0\x08\0\0"sv);
  const bool little = tiff.starts_with("II");
  if (!big && !tiff.starts_with("II\x2a\0"sv) && !tiff.starts_with("MM\0\x2a"sv)) return 0;
  // Returns 0 past the end.
  const auto load = [&](uint64_t at, int size) {
    uint64_t value = 0;
    if (at > tiff.size() || tiff.size() - at < static_cast<size_t>(size)) return value;
    for (int i = 0; i < size; ++i) {
      value = value << 8 | static_cast<uint8_t>(tiff[little ? at + size - 1 - i : at + i]);
    }
    return value;
  };
  const uint64_t directory = big ? load(8, 8) : load(4, 4);
  if (directory >= tiff.size()) return 0;
  const uint64_t entries = load(directory, big ? 8 : 2);
  const uint64_t entry_bytes = big ? 20 : 12;
  uint64_t entry = directory + (big ? 8 : 2);
  // The count is not trusted: the loop ends with the file.
  for (uint64_t i = 0; i < entries; ++i, entry += entry_bytes) {
    if (entry + entry_bytes > tiff.size()) return 0;
    constexpr uint64_t kOrientation = 0x0112;
    constexpr uint64_t kShort = 3;
    constexpr uint64_t kLong = 4;  // not Exif's type of it, but some programs write it
    if (load(entry, 2) != kOrientation) continue;
    const uint64_t type = load(entry + 2, 2);
    if (type != kShort && type != kLong) return 0;
    const uint64_t orientation = load(entry + (big ? 12 : 8), type == kShort ? 2 : 4);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 0;
  }
  return 0;
}

int OfJpeg(std::string_view jpeg) {
  JpegMarkerReader reader(jpeg);
  JpegMarker marker;
  while (reader.Next(&marker)) {
    if (marker.code == kJpegSos || marker.code == kJpegEoi || IsJpegFrame(marker.code)) return 1;
    constexpr uint8_t kApp1 = 0xe1;
    if (marker.code != kApp1 || !marker.payload.starts_with(kExif)) continue;
    if (const int found = OrientationOf(marker.payload.substr(kExif.size())); found > 0) {
      return found;
    }
  }
  return 1;
}

// The orientation in a chunk that is a TIFF header, which some programs begin as JPEG's segment.
int OfChunk(std::string_view chunk) {
  if (chunk.starts_with(kExif)) chunk.remove_prefix(kExif.size());
  return std::max(OrientationOf(chunk), 1);
}

// The unsigned integer of 4 bytes at `at`, which must be within `bytes`.
uint32_t Load32(std::string_view bytes, size_t at, bool little) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + (little ? 3 - i : i)]);
  }
  return value;
}

// PNG chunks have a length, a name, that many bytes and a CRC; eXIf may follow the image.
int OfPng(std::string_view png) {
  constexpr size_t kFixed = 12;
  for (size_t at = 8; at + kFixed <= png.size();) {
    const uint32_t length = Load32(png, at, /*little=*/false);
    if (length > png.size() - at - kFixed) return 1;
    if (png.substr(at + 4, 4) == "eXIf") return OfChunk(png.substr(at + 8, length));
    at += kFixed + length;
  }
  return 1;
}

// RIFF chunks have a name, a length, and that many bytes, rounded up to an even number.
int OfWebp(std::string_view webp) {
  constexpr size_t kFixed = 8;
  for (size_t at = 12; at + kFixed <= webp.size();) {
    const uint32_t length = Load32(webp, at + 4, /*little=*/true);
    if (length > webp.size() - at - kFixed) return 1;
    if (webp.substr(at, 4) == "EXIF") return OfChunk(webp.substr(at + kFixed, length));
    at += kFixed + length + length % 2;
  }
  return 1;
}

}  // namespace

int ExifOrientation(std::string_view bytes, std::string_view format) {
  if (format == "jpeg") return OfJpeg(bytes);
  if (format == "png") return OfPng(bytes);
  if (format == "webp") return OfWebp(bytes);
  // The tag is in the image's own directory.
  if (format == "tiff") return std::max(OrientationOf(bytes), 1);
  if (format == "avif" || format == "heic") {
    const absl::StatusOr<HeifHeader> header = ReadHeifHeader(bytes);
    return header.ok() ? header->orientation : 1;
  }
  if (format == "jxl") {
    const absl::StatusOr<JxlHeader> header = ReadJxlHeader(bytes);
    return header.ok() ? header->orientation : 1;
  }
  return 1;
}

}  // namespace shardfeed
