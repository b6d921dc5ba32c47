// Reads the layout of a JPEG from its header: frame, first scan, restart interval, tables, and the
// grid of MCUs (minimum coded units, the blocks that are coded together).
//
// Format: ITU-T T.81, annex A.2 (the grid) and annex B (the markers).

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_JPEG_LAYOUT_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_JPEG_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "media/jpeg_markers.h"

namespace shardfeed {

struct JpegLayout {
  JpegFrame frame;
  // Whether the image is a single scan of 8-bit samples, sequential and Huffman coded, whose MCUs
  // hold all components, with all the quantization tables that it needs. Nearly all JPEGs that are
  // not progressive are. The fields below are set only for these.
  bool one_scan = false;

  uint32_t mcu_width = 0;   // in pixels
  uint32_t mcu_height = 0;  // in pixels
  uint32_t mcus_per_row = 0;
  uint32_t mcu_rows = 0;
  uint32_t restart_interval = 0;  // in MCUs; 0 without restart markers
  size_t scan_begin = 0;          // offset of the first byte of entropy-coded data

  // The numbers of the tables of each component of the scan.
  struct Coding {
    uint8_t dc = 0;
    uint8_t ac = 0;
  };
  std::array<Coding, 4> coding;
  // Huffman tables by class (0 for DC) and number: 16 counts and the symbols; empty if there is
  // none. Not validated.
  std::array<std::array<std::string_view, 4>, 2> huffman;
  // Whole marker segments, in order, that define the meaning of samples: quantization tables, and
  // the APPn of JFIF and Adobe, which tell the color space.
  std::array<std::string_view, 16> meaning;
  size_t num_meaning = 0;

  uint64_t num_mcus() const { return uint64_t{mcus_per_row} * mcu_rows; }
};

// Reads up to the first scan. The views point into `jpeg`, which must begin with SOI (ff d8).
// Thread-safe.
//
// DataLoss: the header is damaged or cut off.
absl::StatusOr<JpegLayout> ReadJpegLayout(std::string_view jpeg);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_LAYOUT_H_
