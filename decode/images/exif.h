// How the camera was held.

#ifndef SHARDFEED_DECODE_IMAGES_EXIF_H_
#define SHARDFEED_DECODE_IMAGES_EXIF_H_

#include <string_view>

namespace shardfeed {

// The orientation of an image (tag 0x0112), 1 to 8, from the Exif segment of a JPEG, the chunk eXIf
// of a PNG, EXIF of a WebP, or the first directory of a TIFF; 1, which is upright, where there is
// none that is valid, or for another format. `format` is that of ImageHeader. 2 is mirrored left to
// right, 3 turned by 180 degrees, 4 mirrored top to bottom; 5 to 8 have rows and columns exchanged:
// 5 as that, 6 has to be turned right, 7 is mirrored across the other diagonal, 8 has to be turned
// left.
//
// Any bytes are safe to pass. Thread safe. Format: Exif 2.3 (CIPA DC-008), 4.5 and 4.6.4.
int ExifOrientation(std::string_view bytes, std::string_view format);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_EXIF_H_
