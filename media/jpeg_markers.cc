#include "media/jpeg_markers.h"

#include <algorithm>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

uint8_t Byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

uint32_t Load16(std::string_view bytes, size_t at) {
  return uint32_t{Byte(bytes, at)} << 8 | Byte(bytes, at + 1);
}

// As T.81 allows (table B.2): the baseline process has 8 bits, lossless ones have 2 to 16, all
// others 8 or 12.
bool MayHavePrecision(const JpegFrame& frame) {
  constexpr uint8_t kBaseline = 0xc0;
  if (frame.sof == kBaseline) return frame.precision == 8;
  const bool lossless = (frame.sof & 3) == 3;
  return lossless ? frame.precision >= 2 && frame.precision <= 16
                  : frame.precision == 8 || frame.precision == 12;
}

}  // namespace

void JpegMarkerReader::Found(size_t at, std::string_view defect) {
  if (!defect_.ok()) return;
  defect_ = absl::DataLossError(fmt::format("JPEG is damaged at byte {}: {}", at, defect));
}

bool JpegMarkerReader::Next(JpegMarker* marker) {
  while (true) {
    // Any number of fill bytes (FF) may precede a marker. FF 00 is not a marker.
    size_t at = at_;
    if (at < jpeg_.size() && Byte(jpeg_, at) != 0xff) {
      Found(at, fmt::format("expected a marker (0xff), found {:#04x}", Byte(jpeg_, at)));
    }
    do {
      at = jpeg_.find('\xff', at);
      if (at != std::string_view::npos) at = jpeg_.find_first_not_of('\xff', at);
      if (at == std::string_view::npos) {
        at_ = jpeg_.size();
        return false;
      }
    } while (Byte(jpeg_, at++) == 0x00);
    if (jpeg_.find_first_not_of('\xff', at_) != at - 1) {
      Found(at_, "expected a marker, found entropy-coded data");
    }
    at_ = at;
    *marker = {.code = Byte(jpeg_, at - 1), .offset = at - 2};
    if (marker->code == 0xd8) Found(marker->offset, "a second start of an image");
    if (marker->code == 0x01 || (marker->code >= 0xd0 && marker->code <= 0xd8)) continue;
    if (marker->code == kJpegEoi) return true;
    if (jpeg_.size() - at_ < 2) {
      at_ = jpeg_.size();
      return false;
    }
    marker->length = Load16(jpeg_, at_);
    if (marker->length < 2) Found(at_, fmt::format("a segment of {} bytes", marker->length));
    const size_t length = std::max<size_t>(marker->length, 2);
    marker->payload = jpeg_.substr(at_ + 2, length - 2);
    at_ += length;
    return true;
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
  if (!MayHavePrecision(frame)) {
    return absl::DataLossError(fmt::format("JPEG is damaged at byte {}: samples of {} bits",
                                           marker.offset + 4, frame.precision));
  }
  if (frame.height == 0) {
    return absl::DataLossError(
        "JPEG tells its height only after its first scan (a DNL marker), which is not supported");
  }
  return frame;
}

}  // namespace shardfeed
