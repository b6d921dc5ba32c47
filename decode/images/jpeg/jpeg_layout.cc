#include "decode/images/jpeg/jpeg_layout.h"

#include <algorithm>

#include "absl/status/status.h"
#include "base/rounding.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// The maximum number of blocks that are coded together (T.81, B.2.3).
constexpr uint32_t kMaxBlocksInMcu = 10;

uint8_t Byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

absl::Status Damaged(const JpegMarker& marker, std::string_view what) {
  return absl::DataLossError(
      fmt::format("JPEG is damaged at byte {}: invalid {}", marker.offset, what));
}

// Whether a segment is allowed in a header but irrelevant here: DAC, DNL, APPn and COM.
bool SaysNothing(uint8_t code) {
  constexpr uint8_t kDac = 0xcc;
  constexpr uint8_t kDnl = 0xdc;
  constexpr uint8_t kCom = 0xfe;
  return code == kDac || code == kDnl || code == kCom || (code >= kJpegApp0 && code <= 0xef);
}

absl::Status ReadHuffmanTables(const JpegMarker& marker, JpegLayout& layout) {
  constexpr size_t kCounts = 16;
  std::string_view rest = marker.payload;
  while (!rest.empty()) {
    if (rest.size() < 1 + kCounts) return Damaged(marker, "Huffman table");
    const uint8_t kind = Byte(rest, 0);
    size_t symbols = 0;
    for (size_t i = 0; i < kCounts; ++i) symbols += Byte(rest, 1 + i);
    if (kind >> 4 > 1 || (kind & 15) > 3 || symbols > 256 || rest.size() < 1 + kCounts + symbols) {
      return Damaged(marker, "Huffman table");
    }
    layout.huffman[kind >> 4][kind & 15] = rest.substr(1, kCounts + symbols);
    rest.remove_prefix(1 + kCounts + symbols);
  }
  return absl::OkStatus();
}

// The numbers of the tables in the segment as a bit set; 0 if the segment is damaged.
uint32_t QuantizationTables(std::string_view payload) {
  uint32_t tables = 0;
  while (!payload.empty()) {
    const uint8_t kind = Byte(payload, 0);
    const size_t size = kind >> 4 == 0 ? 1 + 64 : 1 + 2 * 64;
    if (kind >> 4 > 1 || (kind & 15) > 3 || payload.size() < size) return 0;
    tables |= uint32_t{1} << (kind & 15);
    payload.remove_prefix(size);
  }
  return tables;
}

// Sets `one_scan` and the fields that depend on it; leaves `one_scan` false for other images.
absl::Status ReadScan(const JpegMarker& marker, JpegLayout& layout) {
  const std::string_view payload = marker.payload;
  const uint32_t num = payload.empty() ? 0 : Byte(payload, 0);
  if (num == 0 || payload.size() != 4 + 2 * num) return Damaged(marker, "scan header");
  const JpegFrame& frame = layout.frame;
  if (frame.sof != kJpegSof0 && frame.sof != kJpegSof1) return absl::OkStatus();
  if (frame.precision != 8 || num != frame.num_components || num > frame.components.size()) {
    return absl::OkStatus();
  }
  // The scan must have all coefficients (Ss, Se) in full precision (Ah, Al).
  if (Byte(payload, 1 + 2 * num) != 0 || Byte(payload, 2 + 2 * num) != 63 ||
      Byte(payload, 3 + 2 * num) != 0) {
    return absl::OkStatus();
  }
  uint32_t max_h = 1;
  uint32_t max_v = 1;
  uint32_t blocks = 0;
  for (size_t i = 0; i < num; ++i) {
    const JpegFrame::Component& component = frame.components[i];
    if (component.h < 1 || component.h > 4 || component.v < 1 || component.v > 4) {
      return absl::OkStatus();
    }
    const uint8_t tables = Byte(payload, 2 + 2 * i);
    if (Byte(payload, 1 + 2 * i) != component.id || tables >> 4 > 3 || (tables & 15) > 3) {
      return absl::OkStatus();
    }
    layout.coding[i] = {static_cast<uint8_t>(tables >> 4), static_cast<uint8_t>(tables & 15)};
    max_h = std::max<uint32_t>(max_h, component.h);
    max_v = std::max<uint32_t>(max_v, component.v);
    blocks += component.h * component.v;
  }
  // A single component is coded block by block, regardless of its sampling factors.
  if (num == 1) {
    max_h = max_v = 1;
  } else if (blocks > kMaxBlocksInMcu) {
    return absl::OkStatus();
  }
  layout.mcu_width = 8 * max_h;
  layout.mcu_height = 8 * max_v;
  layout.mcus_per_row = CeilDivide(frame.width, layout.mcu_width);
  layout.mcu_rows = CeilDivide(frame.height, layout.mcu_height);
  layout.one_scan = frame.width > 0;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JpegLayout> ReadJpegLayout(std::string_view jpeg) {
  JpegLayout layout;
  JpegMarkerReader reader(jpeg);
  bool too_many = false;
  uint32_t quantization_tables = 0;
  JpegMarker marker;
  while (reader.Next(&marker) && reader.position() <= jpeg.size()) {
    if (!reader.defect().ok()) return reader.defect();
    const std::string_view segment = jpeg.substr(marker.offset, reader.position() - marker.offset);
    switch (marker.code) {
      case kJpegEoi:
        return absl::DataLossError(fmt::format(
            "JPEG is damaged at byte {}: its end comes before the first scan", marker.offset));
      case kJpegSos: {
        if (layout.frame.sof == 0) {
          return absl::DataLossError(fmt::format(
              "JPEG is damaged at byte {}: a scan comes before the image's size", marker.offset));
        }
        if (absl::Status status = ReadScan(marker, layout); !status.ok()) return status;
        for (size_t i = 0; layout.one_scan && i < layout.frame.num_components; ++i) {
          const uint8_t table = layout.frame.components[i].quantization;
          layout.one_scan = !too_many && table < 4 && (quantization_tables >> table & 1) != 0;
        }
        layout.scan_begin = reader.position();
        return layout;
      }
      case kJpegDri:
        if (marker.payload.size() != 2) return Damaged(marker, "restart interval");
        layout.restart_interval = uint32_t{Byte(marker.payload, 0)} << 8 | Byte(marker.payload, 1);
        break;
      case kJpegDht:
        if (absl::Status status = ReadHuffmanTables(marker, layout); !status.ok()) return status;
        break;
      case kJpegDqt:
        quantization_tables |= QuantizationTables(marker.payload);
        [[fallthrough]];
      case kJpegApp0:
      case kJpegApp14:
        if (layout.num_meaning < layout.meaning.size()) {
          layout.meaning[layout.num_meaning++] = segment;
        } else {
          too_many = true;
        }
        break;
      default:
        if (!IsJpegFrame(marker.code)) {
          if (SaysNothing(marker.code)) break;
          return absl::DataLossError(fmt::format(
              "JPEG is damaged at byte {}: unknown marker {:#04x}", marker.offset, marker.code));
        }
        if (layout.frame.sof != 0) return Damaged(marker, "second frame header");
        const absl::StatusOr<JpegFrame> frame = ParseJpegFrame(marker);
        if (absl::IsOutOfRange(frame.status())) break;  // the file ends
        if (!frame.ok()) return frame.status();
        layout.frame = *frame;
    }
  }
  if (!reader.defect().ok()) return reader.defect();
  return absl::DataLossError(fmt::format("JPEG ends in its header, after {} bytes", jpeg.size()));
}

}  // namespace shardfeed
