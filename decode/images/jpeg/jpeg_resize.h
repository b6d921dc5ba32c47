// Shrinks JPEGs.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_JPEG_RESIZE_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_JPEG_RESIZE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

struct JpegResizeOptions {
  // The shorter side of the result in pixels, at least 1. The other side keeps the aspect ratio,
  // rounded.
  uint32_t shorter_side = 256;
  // libjpeg's quality, 1 to 100.
  int quality = 90;
  // Whether the result has the restart intervals of seekable JPEG.
  bool seekable = true;
};

struct ResizedJpeg {
  uint32_t width = 0;
  uint32_t height = 0;
};

// Decodes `jpeg`, shrinks it (each pixel is the mean of the area that it covers) and encodes it,
// color as YCbCr with half the chroma resolution, gray as gray. APPn and COM segments are kept in
// their order, so an Exif orientation still holds; those of JFIF and Adobe, and the profile of
// CMYK, which becomes RGB, are dropped. Returns the new size and sets `*resized`. If the returned
// width is 0, the image is not larger than asked for and the content of `*resized` is unspecified.
//
// Thread-safe; each thread keeps memory for images. The result depends on `jpeg` and the options
// alone.
//
// DataLoss: not a JPEG, cut off or damaged. Unimplemented: a kind that cannot be decoded, or more
// than 128 Mi pixels or 500 scans. ResourceExhausted: no memory.
absl::StatusOr<ResizedJpeg> ResizeJpeg(std::string_view jpeg, const JpegResizeOptions& options,
                                       std::string* resized);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_JPEG_RESIZE_H_
