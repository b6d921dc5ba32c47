// How augmentations have moved the pixels of an image, so that masks, boxes and points can follow.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_MOVED_PIXELS_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_MOVED_PIXELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/images/pixels/augment_geometry.h"
#include "decode/images/pixels/projection.h"
#include "shardfeed/images.h"

namespace shardfeed::augment {

// Follows the functions of augment_geometry.h that move pixels, one after another. Reuses its
// memory. Not thread-safe.
class MovedPixels {
 public:
  // Begins with an image of this size, whose number of pixels, now and after changes, fits an
  // int32. Only if `gathers`, Gather may be called.
  void Begin(int height, int width, bool gathers);

  void HorizontalFlip();
  void VerticalFlip();
  // Becomes `to_height` x `to_width` pixels: see PadBorders.
  void PadBorders(int to_height, int to_width, int left, int top, PaddingMode mode);
  void Warp(const Transform& transform);

  int height() const { return height_; }
  int width() const { return width_; }
  const Projection& projection() const { return projection_; }

  // Changes an image with pixels of `pixel_bytes` bytes, as Warp does for Sampling::kNearest:
  // `from` has the size of the beginning, `to` has the current one. They do not overlap. `fill` is
  // a pixel.
  void Gather(const char* from, size_t pixel_bytes, const char* fill, char* to) const;

 private:
  int32_t* row(int y) { return sources_.data() + size_t{1} * y * width_; }

  int height_ = 0;
  int width_ = 0;
  bool gathers_ = false;
  Projection projection_;
  // The number of the pixel of the original image that each pixel shows; -1: none.
  std::vector<int32_t> sources_;
  std::vector<int32_t> before_;
};

}  // namespace shardfeed::augment

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_MOVED_PIXELS_H_
