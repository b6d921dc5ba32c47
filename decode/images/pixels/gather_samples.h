// Resizing by the nearest sample, which invents no values: for masks and the like.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_GATHER_SAMPLES_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_GATHER_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardfeed/images.h"
#include "shardfeed/schema.h"

namespace shardfeed {

struct SampleGather {
  const uint8_t* samples = nullptr;  // samples of 8 bits, or of 16 in the machine's byte order
  int sample_bytes = 1;
  int channels = 1;
  // The first channel of the result's pixel (x, y) is sample number columns[x] + rows[y]; the
  // others follow it.
  std::vector<size_t> columns;
  std::vector<size_t> rows;
};

// Writes the samples, converted to `dtype` without scaling, to `out`, without gaps. `dtype` is
// kUInt8 (only from samples of 8 bits), kUInt16, kInt32 or kFloat32. Thread-safe.
void GatherSamples(const SampleGather& gather, ImageLayout layout, DType dtype, void* out);

// Returns, for each of `out` pixels, the nearest of the `size` pixels that begin at `begin`: the
// one under its middle, as in Pillow's resize(resample=NEAREST, box=...) and torch's
// "nearest-exact". The second function returns only those for the output pixels [first, first +
// count).
std::vector<uint32_t> NearestPixels(uint32_t begin, uint32_t size, uint32_t out);
std::vector<uint32_t> NearestPixels(uint32_t begin, uint32_t size, uint32_t out, uint32_t first,
                                    uint32_t count);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_GATHER_SAMPLES_H_
