// Augmentations that change colours and leave pixels where they are.
//
// All work in place, on 1 or 3 channels, and compute what torchvision.transforms.v2.functional
// computes for uint8 tensors: in binary32, the result cut (not rounded) to 8 bits. Factors are
// finite and not negative. Thread safe.

#ifndef SHARDFEED_DECODE_IMAGES_AUGMENT_COLOR_H_
#define SHARDFEED_DECODE_IMAGES_AUGMENT_COLOR_H_

#include "decode/images/image_view.h"

namespace shardfeed::augment {

// value * factor.
void AdjustBrightness(ImageView image, double factor);
// Blends with the mean of the grey image: 0 is plain grey, 1 the image.
void AdjustContrast(ImageView image, double factor);
// Blends with the grey image: 0 is grey, 1 the image. Nothing on 1 channel.
void AdjustSaturation(ImageView image, double factor);
// Turns the hue by `factor` of the full circle, in [-0.5, 0.5]. Nothing on 1 channel.
void AdjustHue(ImageView image, double factor);
// Grey, 0.2989 red + 0.587 green + 0.114 blue, in all three channels. Nothing on 1 channel.
void ToGrayscale(ImageView image);

// 255 - value.
void Invert(ImageView image);
// Keeps the upper `bits` of each value, 0 to 8.
void Posterize(ImageView image, int bits);
// Inverts values from `threshold` on.
void Solarize(ImageView image, double threshold);
// Stretches each channel to [0, 255].
void AutoContrast(ImageView image);
// Evens out each channel's histogram, as Pillow does.
void Equalize(ImageView image);

}  // namespace shardfeed::augment

#endif  // SHARDFEED_DECODE_IMAGES_AUGMENT_COLOR_H_
