// JPEGs for tests, written by libjpeg, and libjpeg's decoding of them as the reference.

#ifndef SHARDFEED_TESTS_DECODE_JPEG_IMAGES_H_
#define SHARDFEED_TESTS_DECODE_JPEG_IMAGES_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "jpeglib.h"

namespace shardfeed::testing {

struct JpegSpec {
  int width = 0;
  int height = 0;
  // Horizontal and vertical factors of each component. 1 component is gray, 3 are YCbCr, 4 are
  // CMYK; 2 have no defined meaning.
  std::vector<std::pair<int, int>> sampling = {{2, 2}, {1, 1}, {1, 1}};
  bool rgb = false;   // 3 components that are stored as RGB, as Adobe's segment says
  bool ycck = false;  // 4 components that are stored as YCCK
  bool adobe = true;  // for 4 components: with Adobe's segment
  int quality = 85;
  bool optimized = false;
  bool arithmetic = false;
  bool progressive = false;
  // Whether each component has a scan of its own, instead of libjpeg's scans.
  bool separate_scans = false;
  std::vector<jpeg_scan_info> scans;
  int restart_interval = 0;
  int restart_rows = 0;
  // APPn and COM segments: marker and content.
  std::vector<std::pair<int, std::string>> segments;
  uint32_t seed = 1;
  // Whether only the last coefficient of each block is not 0, instead of noise. For gray images of
  // low quality.
  bool last_coefficient_only = false;
};

// Noise over gradients, which has codes of all lengths, and neighbors that differ.
std::string MakeJpeg(const JpegSpec& spec);

struct Pixels {
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t channels = 0;
  std::vector<uint8_t> values;
  // Defects that libjpeg found but did not stop at, from the header to the end of the image (EOI).
  int warnings = 0;
  // libjpeg's error, if it could not decode the image.
  std::string error;

  bool operator==(const Pixels&) const = default;
};

// The whole image, as libjpeg decodes it by default.
Pixels DecodeByLibjpeg(const std::string& jpeg, J_COLOR_SPACE color_space = JCS_RGB,
                       int scale_denominator = 1);

// The coefficients of all components, one after another; empty if libjpeg fails or warns.
std::vector<int16_t> Coefficients(const std::string& jpeg);

// The APPn and COM segments, in order.
std::vector<std::pair<int, std::string>> Segments(const std::string& jpeg);

// The offset of the first marker of that kind (the byte after 0xff) in the header, or npos.
size_t FindMarker(const std::string& jpeg, uint8_t code);

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_DECODE_JPEG_IMAGES_H_
