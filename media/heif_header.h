// Reads what the header of an AVIF or HEIC file says about its primary image.
//
// Format: boxes as in ISO/IEC 14496-12 and images as in ISO/IEC 23008-12 (HEIF); for HEVC its annex
// B, for AV1 https://aomediacodec.github.io/av1-avif.

#ifndef SHARDFEED_MEDIA_HEIF_HEADER_H_
#define SHARDFEED_MEDIA_HEIF_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

struct HeifHeader {
  // In pixels, of the part that is shown (clap), before it is turned.
  uint32_t height = 0;
  uint32_t width = 0;
  // All pixels that are stored, and where in them the part that is shown begins. It lies in them.
  uint32_t stored_height = 0;
  uint32_t stored_width = 0;
  uint32_t top = 0;
  uint32_t left = 0;
  // How many channels are stored, alpha included; 0 if the header does not tell.
  uint32_t channels = 0;
  // How the image has to be turned and mirrored to be upright (irot, imir), as an Exif orientation,
  // 1 to 8.
  int orientation = 1;
  // Whether it has a pixel of color for each pixel (3), for two in a row (2) or for two by two
  // (1), or is gray (0).
  int chroma = 3;
  // Where in the file stand the bytes that give the image and its alpha their clap, irot and imir;
  // they have none if these are 0. Empty without alpha.
  std::vector<size_t> turns;
};

// "avif" or "heic" if `bytes` begin with a box ftyp that names one of them, else "". A file that
// may also be played as a sequence counts as an image.
std::string_view HeifFormatOf(std::string_view bytes);

// `bytes` are the whole file. Any bytes are safe to pass. Thread-safe.
//
// DataLoss: cut off or damaged, or the primary image has no size, or shows a part that it does not
// have; the message does not name the file.
absl::StatusOr<HeifHeader> ReadHeifHeader(std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_MEDIA_HEIF_HEADER_H_
