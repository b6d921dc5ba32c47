// 8-bit pixels to the layout and type that a network takes.

#ifndef SHARDFEED_DECODE_IMAGES_NORMALIZE_H_
#define SHARDFEED_DECODE_IMAGES_NORMALIZE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "decode/images/resample.h"
#include "shardfeed/images.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// Turns levels v of channel c into (v / 255 - mean[c]) / std[c], or keeps them, as kUInt8. Keeps
// the memory it works in: have one for each thread. Not thread safe.
class Normalizer {
 public:
  // `dtype`: kUInt8 (`mean` 0 and `std` 1 only), kFloat16, kBFloat16 or kFloat32. `mean` and `std`
  // have an entry for each channel.
  Normalizer(PixelLayout layout, DType dtype, int channels, const std::vector<float>& mean,
             const std::vector<float>& std);

  // Writes all pixels, without gaps between rows or planes. float16 and bfloat16 are rounded to the
  // nearest, ties to even.
  void Write(const PixelRows& pixels, void* out);

 private:
  const PixelLayout layout_;
  const DType dtype_;
  const int channels_;
  std::array<float, 3> scale_;
  std::array<float, 3> bias_;
  std::vector<float> pattern_;  // scales, then biases, as they repeat along a row of pixels
  std::vector<uint8_t> plane_;  // one channel of a row
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_NORMALIZE_H_
