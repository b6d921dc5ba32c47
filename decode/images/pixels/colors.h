// Arithmetic of colors, as Pillow and libjpeg compute it.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_COLORS_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_COLORS_H_

#include <cstdint>

namespace shardfeed {

// Gray by ITU-R BT.601 in 65536ths, rounded.
inline uint8_t GrayOf(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

// a * b / 255, rounded.
inline uint32_t MultiplyAsFractions(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_COLORS_H_
