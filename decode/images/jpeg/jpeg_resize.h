// JPEGs made smaller.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_JPEG_RESIZE_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_JPEG_RESIZE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

struct JpegResizeOptions {
  // Of the result, in pixels, at least 1. The other side keeps the ratio, rounded.
  uint32_t shorter_side = 256;
  // libjpeg's, 1 to 100.
  int quality = 90;
  // Whether the result has the restart intervals of seekable JPEG.
  bool seekable = true;
};

struct ResizedJpeg {
  uint32_t width = 0;
  uint32_t height = 0;
};

// Decodes `jpeg`, shrinks it (each pixel is the mean of the area it covers) and encodes it: colour
// as YCbCr with half the resolution of chroma, grey as grey. APPn and COM segments are kept in
// their order, so Exif's orientation still holds, but for those of JFIF and Adobe and, where CMYK
// becomes RGB, the profile. Returns its size and sets `*resized`; with a width of 0, the image is
// not larger than asked for and `*resized` holds nothing of use.
//
// Thread safe; each thread keeps memory for images. The bytes depend on `jpeg` and the options
// alone.
//
// DataLoss: not a JPEG, cut off or damaged. Unimplemented: a kind that cannot be decoded, or more
// than 128 Mi pixels. ResourceExhausted: no memory, or too many scans.
absl::StatusOr<ResizedJpeg> ResizeJpeg(std::string_view jpeg, const JpegResizeOptions& options,
                                       std::string* resized);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_RESIZE_H_
