// The Exif orientation of images.

#ifndef SHARDFEED_DECODE_IMAGES_EXIF_H_
#define SHARDFEED_DECODE_IMAGES_EXIF_H_

#include <string_view>

namespace shardfeed {

// The orientation of an image (tag 0x0112), 1 to 8, from the Exif segment of a JPEG, the chunk eXIf
// of a PNG, EXIF of a WebP, or the first directory of a TIFF, or from what AVIF, HEIC
// and JPEG XL have in its place; 1, which is upright, if there is no valid one, and for other
// formats. `format` is that of ImageHeader. 2 is mirrored left to right, 3 rotated by 180 degrees,
// 4 mirrored top to bottom. In 5 to 8 rows and columns are exchanged: 5 is only transposed, 6 has
// to be rotated clockwise, 7 is mirrored across the other diagonal, and 8 has to be rotated
// counterclockwise.
//
// Any bytes are safe to pass. Thread-safe. Format: Exif 2.3 (CIPA DC-008), 4.5 and 4.6.4.
int ExifOrientation(std::string_view bytes, std::string_view format);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_EXIF_H_
