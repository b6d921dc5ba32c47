// A view of an image's pixels.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_IMAGE_VIEW_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_IMAGE_VIEW_H_

#include <cstddef>
#include <cstdint>

namespace shardfeed {

// [height, width, channels] values of 8 bits, rows and pixels without gaps. Borrows the memory.
struct ImageView {
  uint8_t* data = nullptr;
  int height = 0;
  int width = 0;
  int channels = 0;  // 1: gray; 3: red, green, blue

  size_t row_bytes() const { return static_cast<size_t>(width) * channels; }
  size_t bytes() const { return row_bytes() * height; }
  uint8_t* row(int y) const { return data + y * row_bytes(); }
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_IMAGE_VIEW_H_
