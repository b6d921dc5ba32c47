// Conversion of color to gray.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_GRAY_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_GRAY_H_

#include <cstdint>

namespace shardfeed {

// ITU-R BT.601 in 65536ths, rounded, as libjpeg and Pillow compute it.
inline uint8_t GrayOf(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_GRAY_H_
