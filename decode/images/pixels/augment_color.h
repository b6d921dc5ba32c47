// Augmentations that change colors but do not move pixels.
//
// All functions work in place on images of 1 or 3 channels and compute what
// torchvision.transforms.v2.functional computes for uint8 tensors: in binary32, with the result
// truncated (not rounded) to 8 bits. Factors are finite and not negative, unless stated otherwise.
// Thread-safe.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_COLOR_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_COLOR_H_

#include "decode/images/pixels/image_view.h"

namespace shardfeed::augment {

// Multiplies each value by `factor`.
void AdjustBrightness(ImageView image, double factor);
// Blends with the mean of the grayscale image: 0 gives uniform gray, 1 the image itself.
void AdjustContrast(ImageView image, double factor);
// Blends with the grayscale image: 0 gives grayscale, 1 the image itself. No effect on 1 channel.
void AdjustSaturation(ImageView image, double factor);
// Rotates the hue by `factor` of the full circle, in [-0.5, 0.5]. No effect on 1 channel.
void AdjustHue(ImageView image, double factor);
// Sets all three channels to 0.2989 red + 0.587 green + 0.114 blue. No effect on 1 channel.
void ToGrayscale(ImageView image);

// Replaces each value by 255 - value.
void Invert(ImageView image);
// Keeps the upper `bits` (0 to 8) of each value.
void Posterize(ImageView image, int bits);
// Inverts values from `threshold` on.
void Solarize(ImageView image, double threshold);
// Stretches each channel to [0, 255].
void AutoContrast(ImageView image);
// Equalizes each channel's histogram, as Pillow does.
void Equalize(ImageView image);

}  // namespace shardfeed::augment

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_COLOR_H_
