#include "decode/images/jpeg/jpeg_markers.h"

#include <algorithm>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

uint8_t Byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

uint32_t Load16(std::string_view bytes, size_t at) {
  return uint32_t{Byte(bytes, at)} << 8 | Byte(bytes, at + 1);
}

}  // namespace

absl::StatusOr<JpegMarker> JpegMarkerReader::Next() {
  while (true) {
    if (at_ >= jpeg_.size()) return absl::OutOfRangeError("the file ends");
    if (Byte(jpeg_, at_) != 0xff) {
      return absl::DataLossError(
          fmt::format("JPEG is damaged at byte {}: expected a marker (0xff), found {:#04x}", at_,
                      Byte(jpeg_, at_)));
    }
    // Any number of FF may stand before the marker as fill.
    at_ = jpeg_.find_first_not_of('\xff', at_);
    if (at_ == std::string_view::npos) {
      at_ = jpeg_.size();
      return absl::OutOfRangeError("the file ends");
    }
    JpegMarker marker;
    marker.code = Byte(jpeg_, at_);
    marker.offset = at_ - 1;
    ++at_;
    if (marker.code == 0x01 || (marker.code >= 0xd0 && marker.code <= 0xd8)) continue;
    if (marker.code == 0x00 || marker.code == kJpegEoi) return marker;
    if (jpeg_.size() - at_ < 2) {
      at_ = jpeg_.size();
      return absl::OutOfRangeError("the file ends");
    }
    marker.length = Load16(jpeg_, at_);
    if (marker.length < 2) {
      return absl::DataLossError(
          fmt::format("JPEG is damaged at byte {}: a segment of {} bytes", at_, marker.length));
    }
    marker.payload = jpeg_.substr(at_ + 2, marker.length - 2);
    at_ += marker.length;
    return marker;
  }
}

absl::StatusOr<JpegFrame> ParseJpegFrame(const JpegMarker& marker) {
  constexpr size_t kFixed = 6;  // precision, height, width, number of components
  const std::string_view payload = marker.payload;
  if (payload.size() < kFixed && payload.size() + 2 < marker.length) {
    return absl::OutOfRangeError("the file ends");
  }
  const uint32_t num_components = payload.size() < kFixed ? 0 : Byte(payload, 5);
  if (marker.length != 2 + kFixed + 3 * num_components) {
    return absl::DataLossError(
        fmt::format("JPEG is damaged at byte {}: a frame header of {} bytes for {} components",
                    marker.offset + 2, marker.length, num_components));
  }
  if (payload.size() + 2 < marker.length) return absl::OutOfRangeError("the file ends");
  JpegFrame frame;
  frame.sof = marker.code;
  frame.precision = Byte(payload, 0);
  frame.height = Load16(payload, 1);
  frame.width = Load16(payload, 3);
  frame.num_components = num_components;
  for (size_t i = 0; i < std::min<size_t>(num_components, frame.components.size()); ++i) {
    const size_t at = kFixed + 3 * i;
    frame.components[i] = {Byte(payload, at), static_cast<uint8_t>(Byte(payload, at + 1) >> 4),
                           static_cast<uint8_t>(Byte(payload, at + 1) & 15), Byte(payload, at + 2)};
  }
  if (frame.height == 0) {
    return absl::DataLossError(
        "JPEG tells its height only after its first scan (a DNL marker), which is not supported");
  }
  return frame;
}

}  // namespace shardfeed
