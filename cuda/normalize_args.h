// What the kernels of normalize.cu are called with. Included by the device's code, too: plain
// types.

#ifndef SHARDFEED_CUDA_NORMALIZE_ARGS_H_
#define SHARDFEED_CUDA_NORMALIZE_ARGS_H_

#include <stdint.h>

namespace shardfeed {

constexpr uint32_t kMaxChannels = 4;

struct NormalizeArgs {
  const uint8_t* in;    // [images, height, width, channels]
  void* out;            // [images, channels, height, width], or as `in`
  const uint8_t* flip;  // [images]: 1 mirrors the image left to right; null: none is
  uint32_t images;
  uint32_t height;
  uint32_t width;
  uint32_t channels;  // at most kMaxChannels
  // A value x becomes x * scale + bias.
  float scale[kMaxChannels];
  float bias[kMaxChannels];
  // Image i is mixed with its partner, image i - 1 (the last one for i = 0).
  uint32_t mix;  // 0: not, 1: mixup, 2: cutmix
  float lambda;  // mixup: the share of the image itself
  // Cutmix: what is inside comes from the partner.
  uint32_t top;
  uint32_t left;
  uint32_t bottom;
  uint32_t right;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_NORMALIZE_ARGS_H_
