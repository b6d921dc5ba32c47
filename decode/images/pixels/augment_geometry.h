// Augmentations that move pixels.
//
// They compute what torchvision.transforms.v2.functional computes for tensors. Coordinates are
// those of pixel centers, and angles are in degrees. 1 or 3 channels. Thread-safe.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_GEOMETRY_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_GEOMETRY_H_

#include <array>
#include <cstdint>
#include <optional>

#include "decode/images/pixels/image_view.h"
#include "shardfeed/images.h"

namespace shardfeed::augment {

// A value for each channel; an image of 1 channel uses the first.
using Color = std::array<float, 3>;

// HorizontalFlip, VerticalFlip and Erase work in place.
void HorizontalFlip(ImageView image);
void VerticalFlip(ImageView image);

// Sets the rectangle of `height` x `width` pixels whose upper left corner is at row `top` and
// column `left`, and which lies within the image. Values are clamped to [0, 255].
void Erase(ImageView image, int top, int left, int height, int width, const Color& color);

// Copies `from` to row `top` and column `left` of the larger image `to` and fills the borders.
// kReflect does not repeat the border pixels, kSymmetric does; a border must not be wider than the
// image (for kReflect, narrower).
void PadBorders(ImageView from, ImageView to, int left, int top, PaddingMode mode,
                const Color& fill);

// The row (or column) of an image of `size` rows that PadBorders shows at `i`, counted in rows of
// the image; -1 if the border is filled there.
int PaddedSource(int i, int size, PaddingMode mode);

// Maps a pixel of the result to its source: x = (m[0] x + m[1] y + m[2]) / (m[6] x + m[7] y + 1), y
// = (m[3] x + m[4] y + m[5]) / (...), in pixels from the upper left corner, with pixel (i, j)
// centered at (i + 0.5, j + 0.5).
using Transform = std::array<double, 8>;

// Rotates by `angle` degrees clockwise, scales by `scale` > 0, and shears by degrees along x and
// along y, all about `center` (x, y; by default the middle); then moves by (translate_x,
// translate_y) pixels. The matrix is that of torchvision's affine, T C R S H C^-1.
struct AffineParameters {
  double angle = 0;
  double translate_x = 0;
  double translate_y = 0;
  double scale = 1;
  double shear_x = 0;
  double shear_y = 0;
  std::optional<std::array<double, 2>> center;
};
Transform AffineTransform(const AffineParameters& parameters, int height, int width);

// The transform that moves the image's corners (upper left, upper right, lower right, lower left;
// each x, y) to `corners`, or nullopt if these do not form a quadrilateral.
std::optional<Transform> PerspectiveTransform(const std::array<std::array<double, 2>, 4>& corners,
                                              int height, int width);

// For each pixel of an image, the number of the pixel from which Warp takes it with
// Sampling::kNearest; -1: from outside.
void NearestSources(const Transform& transform, int height, int width, int32_t* sources);

// Transforms `from` into `to`, which has the same size and does not overlap it. Pixels from outside
// become `fill`, or black without one; pixels on the border are blended with it by how much of them
// lies outside.
void Warp(ImageView from, ImageView to, const Transform& transform, Sampling interpolation,
          const std::optional<Color>& fill);

}  // namespace shardfeed::augment

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_GEOMETRY_H_
