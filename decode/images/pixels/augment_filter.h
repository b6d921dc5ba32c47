// Augmentations that compute each pixel from its neighbors: blurring and sharpening.
//
// They compute what torchvision.transforms.v2.functional computes for uint8 tensors. In place, on 1
// or 3 channels. Thread-safe.
//
// As torchvision.transforms.v2.functional computes them for uint8 tensors. In place, on 1 or 3
// channels. Thread-safe.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_FILTER_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_FILTER_H_

#include <vector>

#include "decode/images/pixels/image_view.h"

namespace shardfeed::augment {

// Blurs with a Gaussian of `kernel_width` x `kernel_height` pixels, both odd, with the standard
// deviation `sigma` > 0 in pixels. The image is reflected at its borders without repeating the
// border pixels, so half a kernel must be less than the image's size. `memory` is working memory
// that is grown as needed.
void BlurGaussian(ImageView image, int kernel_width, int kernel_height, double sigma,
                  std::vector<float>* memory);

// Blends with the image smoothed by a 3 x 3 kernel of 1/13, with 5/13 in the middle: 0 gives the
// smoothed image, 1 the image itself, 2 a sharper one. The outermost pixels do not change.
// `memory`: as above.
void AdjustSharpness(ImageView image, double factor, std::vector<uint8_t>* memory);

}  // namespace shardfeed::augment

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_AUGMENT_FILTER_H_
