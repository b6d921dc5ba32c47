// Reads the marker segments at the start of a JPEG.
//
// Format: ITU-T T.81, annex B.1.1. A segment is 0xff, a marker, and for most markers a big-endian
// length that counts itself and the bytes that follow it.

#ifndef SHARDFEED_MEDIA_JPEG_MARKERS_H_
#define SHARDFEED_MEDIA_JPEG_MARKERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// The markers (the byte after 0xff) that matter here.
enum : uint8_t {
  kJpegSof0 = 0xc0,  // baseline
  kJpegSof1 = 0xc1,  // extended sequential, Huffman
  kJpegDht = 0xc4,
  kJpegSof9 = 0xc9,  // the first with arithmetic coding
  kJpegRst0 = 0xd0,
  kJpegEoi = 0xd9,
  kJpegSos = 0xda,
  kJpegDqt = 0xdb,
  kJpegDri = 0xdd,
  kJpegApp0 = 0xe0,
  kJpegApp2 = 0xe2,
  kJpegApp14 = 0xee,
};

struct JpegMarker {
  uint8_t code = 0;
  size_t offset = 0;         // offset of its 0xff, or of the last one if fill bytes precede it
  size_t length = 0;         // length stated in the file; 0 for EOI, which has none
  std::string_view payload;  // bytes after the length, up to the end of the file
};

// Reads damaged headers as libjpeg does: bytes before a marker are skipped, and a segment whose
// length is below 2 is empty. defect() tells. Not thread-safe. The views point into the bytes
// given.
class JpegMarkerReader {
 public:
  // `jpeg` begins with SOI (ff d8).
  explicit JpegMarkerReader(std::string_view jpeg) : jpeg_(jpeg), at_(2) {}

  // Sets `*marker` to the next marker that is not TEM, RSTn or SOI. Returns false at the end of the
  // file. After SOS and EOI the caller stops.
  bool Next(JpegMarker* marker);

  // OK, or a DataLoss that names the first byte so far that does not belong in an intact header.
  const absl::Status& defect() const { return defect_; }

  // Where the next marker is expected: after SOS, the first byte of entropy-coded data. May lie
  // past the end of the file.
  size_t position() const { return at_; }

 private:
  void Found(size_t at, std::string_view defect);

  std::string_view jpeg_;
  size_t at_;
  absl::Status defect_;
};

// A frame header (SOFn).
struct JpegFrame {
  struct Component {
    uint8_t id = 0;
    uint8_t h = 0;  // sampling factors, 0 to 15, not validated
    uint8_t v = 0;
    uint8_t quantization = 0;  // number of its table
  };
  uint8_t sof = 0;  // the marker
  uint8_t precision = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t num_components = 0;
  std::array<Component, 4> components;  // the first four
};

// Whether the marker starts a frame: SOF0 to SOF15, except DHT, JPG and DAC.
inline bool IsJpegFrame(uint8_t code) {
  return code >= 0xc0 && code <= 0xcf && code != kJpegDht && code != 0xc8 && code != 0xcc;
}

// OutOfRange: the file ends within the header. DataLoss: damaged, or the height is given only after
// the first scan.
absl::StatusOr<JpegFrame> ParseJpegFrame(const JpegMarker& marker);

}  // namespace shardfeed

#endif  // SHARDFEED_MEDIA_JPEG_MARKERS_H_
