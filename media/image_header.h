// Reads an image's format and size from its header, without decoding.
//
// The formats are JPEG (ITU-T T.81, annex B), PNG (ISO 15948), GIF 87a and 89a, BMP (Windows and
// OS/2 headers), WebP (RFC 9649), TIFF (revision 6.0, and BigTIFF; the size of the first image),
// AVIF and HEIC (heif_header.h; the primary image), and JPEG XL (jxl_header.h).

#ifndef SHARDFEED_MEDIA_IMAGE_HEADER_H_
#define SHARDFEED_MEDIA_IMAGE_HEADER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

struct ImageHeader {
  // "jpeg", "png", "gif", "bmp", "webp", "tiff", "avif", "heic" or "jxl"; always a literal.
  std::string_view format;
  // Size in pixels, at least 1, as stored: orientations of Exif or of the format are not applied.
  // For GIF and animated WebP it is the canvas, and for AVIF and HEIC the part that is shown.
  uint32_t height = 0;
  uint32_t width = 0;
  // 1 for gray, 2 for gray and alpha, 3 for color, 4 for CMYK or color and alpha; 0 if the header
  // does not tell, as in images with a palette.
  uint32_t channels = 0;
  // Number of stored pixels that are not shown: around the image, or in more than four channels.
  // Decoding takes memory for them, too.
  uint64_t hidden_pixels = 0;

  uint64_t decoded_pixels() const { return uint64_t{width} * height + hidden_pixels; }
};

// Returns the format of ImageHeader whose magic number `bytes` begin with, or "" if there is none.
// What follows need not be an image.
std::string_view ImageFormatOf(std::string_view bytes);

// `bytes` are the whole file, because JPEG and TIFF may store the size anywhere in it. Any bytes
// are safe to pass; what follows the header is not checked. Thread-safe.
//
// DataLoss: not an image, or one that is cut off or damaged before its size. Unimplemented: it
// begins like an image or video of another format. The message says which; it does not name the
// file, which the caller knows.
absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_MEDIA_IMAGE_HEADER_H_
