#include "tests/cuda/stand_in_kernels.h"

#include <cmath>
#include <cstddef>
#include <map>

#include "decode/features/float16.h"

// Built-in names of CUDA C++.
namespace {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
};
thread_local Index blockIdx;
thread_local Index threadIdx;
thread_local Index blockDim;
thread_local Index gridDim;

}  // namespace

#define __device__
#define __global__
using std::fmaf;
#include "cuda/normalize.cu"
#undef __device__
#undef __global__

namespace shardfeed {

NormalizeKernel FindNormalizeKernel(const std::string& name) {
  static const auto* const kernels = new std::map<std::string, NormalizeKernel>{
      {"normalize_float16_nchw", normalize_float16_nchw},
      {"normalize_float16_nhwc", normalize_float16_nhwc},
      {"normalize_bfloat16_nchw", normalize_bfloat16_nchw},
      {"normalize_bfloat16_nhwc", normalize_bfloat16_nhwc},
      {"normalize_float32_nchw", normalize_float32_nchw},
      {"normalize_float32_nhwc", normalize_float32_nhwc},
  };
  const auto it = kernels->find(name);
  return it == kernels->end() ? nullptr : it->second;
}

void RunKernel(NormalizeKernel kernel, const NormalizeArgs& args, unsigned grid_x, unsigned grid_y,
               unsigned block_x) {
  gridDim = {grid_x, grid_y};
  blockDim = {block_x, 1};
  for (blockIdx.y = 0; blockIdx.y < grid_y; ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < grid_x; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < block_x; ++threadIdx.x) kernel(args);
    }
  }
}

}  // namespace shardfeed
