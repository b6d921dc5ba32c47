// What an image's first bytes tell about it, without decoding: its format and its size.
//
// Read are JPEG (ITU-T T.81, annex B), PNG (ISO 15948), GIF 87a and 89a, BMP (Windows and OS/2
// headers), WebP (RFC 9649) and TIFF (revision 6.0, and BigTIFF; the size of the first image).

#ifndef SHARDFEED_DECODE_IMAGES_IMAGE_HEADER_H_
#define SHARDFEED_DECODE_IMAGES_IMAGE_HEADER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

struct ImageHeader {
  // "jpeg", "png", "gif", "bmp", "webp" or "tiff"; always a literal.
  std::string_view format;
  // In pixels, at least 1, as the file says: an Exif orientation is not applied, and for GIF and
  // animated WebP it is the canvas.
  uint32_t height = 0;
  uint32_t width = 0;
  // Grey 1, grey and alpha 2, colour 3, CMYK or colour and alpha 4; 0 where the header does not
  // tell, as in images with a palette.
  uint32_t channels = 0;
};

// `bytes` are the whole file: JPEG and TIFF may tell the size anywhere in it. Nothing is believed:
// any bytes are safe to pass, and what follows the header is not looked at. Thread safe.
//
// DataLoss: not an image of these formats, or it ends or is damaged before its size is told. The
// message says which, without the file's name: the caller knows that.
absl::StatusOr<ImageHeader> ReadImageHeader(std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_IMAGE_HEADER_H_
