// uint8 images to normalised floating point ones: cast, mean and standard deviation, mirror, mixup or
// cutmix, and the change of layout, in one pass over the batch.
//
// normalize.ptx is made from this file by scripts/make_ptx. The tests' stand-in driver compiles it
// for the processor; all arithmetic is written so that both give the same bits.

#include "cuda/normalize_args.h"

#ifdef __CUDACC__

namespace shardfeed {

__device__ inline uint16_t ToFloat16(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// In integers: the instruction for it asks for compute capability 8.0.
__device__ inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = __float_as_uint(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace shardfeed

#endif

namespace shardfeed {

struct AsFloat16 {
  using Value = uint16_t;
  static __device__ Value From(float value) { return ToFloat16(value); }
};
struct AsBFloat16 {
  using Value = uint16_t;
  static __device__ Value From(float value) { return ToBFloat16(value); }
};
struct AsFloat32 {
  using Value = float;
  static __device__ Value From(float value) { return value; }
};

// A thread takes a pixel: neighbours read and write neighbouring bytes. Blocks in y are images.
template <typename Type, bool kPlanar>
__device__ inline void Normalize(const NormalizeArgs& a) {
  typename Type::Value* const out = static_cast<typename Type::Value*>(a.out);
  const uint32_t pixels = a.height * a.width;
  for (uint32_t n = blockIdx.y; n < a.images; n += gridDim.y) {
    const uint32_t m = n == 0 ? a.images - 1 : n - 1;
    const uint8_t* const image = a.in + static_cast<size_t>(n) * pixels * a.channels;
    const uint8_t* const partner = a.in + static_cast<size_t>(m) * pixels * a.channels;
    const bool flip = a.flip != nullptr && a.flip[n] != 0;
    const bool flip_partner = a.flip != nullptr && a.flip[m] != 0;
    for (uint32_t p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels;
         p += gridDim.x * blockDim.x) {
      const uint32_t y = p / a.width;
      const uint32_t x = p - y * a.width;
      const uint32_t mirrored = y * a.width + (a.width - 1 - x);
      const uint8_t* const from = image + static_cast<size_t>(flip ? mirrored : p) * a.channels;
      const uint8_t* const other =
          partner + static_cast<size_t>(flip_partner ? mirrored : p) * a.channels;
      const bool inside =
          a.mix == 2 && y >= a.top && y < a.bottom && x >= a.left && x < a.right;
      // Of known length, so that the arguments are not copied to be indexed.
      for (uint32_t c = 0; c < kMaxChannels; ++c) {
        if (c >= a.channels) break;
        float value = inside ? other[c] : from[c];
        if (a.mix == 1) {
          const float others = other[c];
          value = fmaf(a.lambda, value - others, others);
        }
        const size_t at = kPlanar ? (static_cast<size_t>(n) * a.channels + c) * pixels + p
                                  : (static_cast<size_t>(n) * pixels + p) * a.channels + c;
        out[at] = Type::From(fmaf(value, a.scale[c], a.bias[c]));
      }
    }
  }
}

}  // namespace shardfeed

extern "C" {

__global__ void normalize_float16_nchw(const shardfeed::NormalizeArgs args) {
  shardfeed::Normalize<shardfeed::AsFloat16, true>(args);
}
__global__ void normalize_float16_nhwc(const shardfeed::NormalizeArgs args) {
  shardfeed::Normalize<shardfeed::AsFloat16, false>(args);
}
__global__ void normalize_bfloat16_nchw(const shardfeed::NormalizeArgs args) {
  shardfeed::Normalize<shardfeed::AsBFloat16, true>(args);
}
__global__ void normalize_bfloat16_nhwc(const shardfeed::NormalizeArgs args) {
  shardfeed::Normalize<shardfeed::AsBFloat16, false>(args);
}
__global__ void normalize_float32_nchw(const shardfeed::NormalizeArgs args) {
  shardfeed::Normalize<shardfeed::AsFloat32, true>(args);
}
__global__ void normalize_float32_nhwc(const shardfeed::NormalizeArgs args) {
  shardfeed::Normalize<shardfeed::AsFloat32, false>(args);
}

}  // extern "C"
