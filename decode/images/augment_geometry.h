// Augmentations that move pixels.
//
// As torchvision.transforms.v2.functional defines them for tensors: coordinates are those of pixel
// centres, angles are in degrees. 1 or 3 channels. Thread safe.

#ifndef SHARDFEED_DECODE_IMAGES_AUGMENT_GEOMETRY_H_
#define SHARDFEED_DECODE_IMAGES_AUGMENT_GEOMETRY_H_

#include <array>
#include <cstdint>
#include <optional>

#include "decode/images/image_view.h"
#include "shardfeed/images.h"

namespace shardfeed::augment {

// A value for each channel; of 1 channel the first counts.
using Color = std::array<float, 3>;

// In place.
void HorizontalFlip(ImageView image);
void VerticalFlip(ImageView image);

// Sets the rectangle of `height` x `width` pixels from row `top`, column `left` on, which lies
// within the image. Values are cut to [0, 255].
void Erase(ImageView image, int top, int left, int height, int width, const Color& color);

// `to` is as much larger than `from` as is padded: `left` and `top` tell where the image lies in
// it. kReflect does not repeat the border, kSymmetric does; no side may take more than the image
// has (kReflect: less).
void PadBorders(ImageView from, ImageView to, int left, int top, PaddingMode mode,
                const Color& fill);

// Where a pixel of the result comes from: x = (m[0] x + m[1] y + m[2]) / (m[6] x + m[7] y + 1),
// y = (m[3] x + m[4] y + m[5]) / (...), in pixels from the upper left corner, pixel (i, j) being
// centred at (i + 0.5, j + 0.5).
using Transform = std::array<double, 8>;

// Rotates by `angle` degrees clockwise, scales, and shears by degrees along x and along y, all
// about `center` (x, y; none: the middle), then moves by (translate_x, translate_y) pixels. `scale`
// > 0. (Matrix: that of torchvision's affine, T C R S H C^-1.)
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

// What moves the image's corners (upper left, upper right, lower right, lower left; x, y) to
// `corners`. Corners that do not make a quadrilateral: none.
std::optional<Transform> PerspectiveTransform(const std::array<std::array<double, 2>, 4>& corners,
                                              int height, int width);

// `to` has the size of `from` and other memory. Pixels from outside become `fill`; those on the
// border are blended with it (with none: with black) by how much of them lies outside.
void Warp(ImageView from, ImageView to, const Transform& transform, Sampling interpolation,
          const std::optional<Color>& fill);

}  // namespace shardfeed::augment

#endif  // SHARDFEED_DECODE_IMAGES_AUGMENT_GEOMETRY_H_
