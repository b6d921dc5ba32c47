// Converts 8-bit pixels to the layout and type that a network takes.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_NORMALIZE_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_NORMALIZE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "decode/images/pixels/resample.h"
#include "shardfeed/images.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// Turns levels v of channel c into (v / 255 - mean[c]) / std[c], or keeps them for kUInt8. Reuses
// its working memory. Not thread-safe: use one for each thread.
class Normalizer {
 public:
  // `dtype` is kUInt8 (only with `mean` 0 and `std` 1), kFloat16, kBFloat16 or kFloat32. `mean` and
  // `std` have an entry for each channel.
  Normalizer(ImageLayout layout, DType dtype, int channels, const std::vector<float>& mean,
             const std::vector<float>& std);

  // Writes all pixels, without gaps between rows or planes. float16 and bfloat16 are rounded to the
  // nearest, ties to even.
  void Write(const PixelRows& pixels, void* out);

 private:
  const ImageLayout layout_;
  const DType dtype_;
  const int channels_;
  std::array<float, 3> scale_;
  std::array<float, 3> bias_;
  std::vector<float> pattern_;  // scales, then biases, as they repeat along a row of pixels
  std::vector<uint8_t> plane_;  // one channel of a row
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_NORMALIZE_H_
