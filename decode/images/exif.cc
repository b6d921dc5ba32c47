#include "decode/images/exif.h"

#include <cstdint>

#include "decode/images/jpeg/jpeg_markers.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

// A TIFF header and the first directory behind it. 0: no valid orientation in it.
int OrientationOf(std::string_view tiff) {
  const bool little = tiff.starts_with("II\x2a\0"sv);
  if (!little && !tiff.starts_with("MM\0\x2a"sv)) return 0;
  // 0 past the end.
  const auto load = [&](uint64_t at, int size) {
    uint64_t value = 0;
    if (at + size > tiff.size()) return value;
    for (int i = 0; i < size; ++i) {
      value = value << 8 | static_cast<uint8_t>(tiff[little ? at + size - 1 - i : at + i]);
    }
    return value;
  };
  const uint64_t directory = load(4, 4);
  const uint64_t entries = load(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) return 0;
    constexpr uint64_t kOrientation = 0x0112;
    constexpr uint64_t kShort = 3;
    if (load(entry, 2) != kOrientation) continue;
    const uint64_t orientation = load(entry + 8, 2);
    const bool valid = load(entry + 2, 2) == kShort && orientation >= 1 && orientation <= 8;
    return valid ? static_cast<int>(orientation) : 0;
  }
  return 0;
}

}  // namespace

int ExifOrientation(std::string_view jpeg) {
  if (!jpeg.starts_with("\xff\xd8"sv)) return 1;
  JpegMarkerReader reader(jpeg);
  JpegMarker marker;
  while (reader.Next(&marker)) {
    if (marker.code == kJpegSos || marker.code == kJpegEoi || IsJpegFrame(marker.code)) return 1;
    constexpr uint8_t kApp1 = 0xe1;
    constexpr std::string_view kExif = "Exif\0\0"sv;
    if (marker.code != kApp1 || !marker.payload.starts_with(kExif)) continue;
    if (const int found = OrientationOf(marker.payload.substr(kExif.size())); found > 0) {
      return found;
    }
  }
  return 1;
}

}  // namespace shardfeed
