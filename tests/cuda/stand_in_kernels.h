// cuda/normalize.cu, compiled for the CPU.

#ifndef SHARDFEED_TESTS_CUDA_STAND_IN_KERNELS_H_
#define SHARDFEED_TESTS_CUDA_STAND_IN_KERNELS_H_

#include <string>

#include "cuda/normalize_args.h"

namespace shardfeed {

using NormalizeKernel = void (*)(NormalizeArgs args);

// Returns null if there is no kernel of this name.
NormalizeKernel FindNormalizeKernel(const std::string& name);

// Calls the kernel for each thread of the grid, one after another.
void RunKernel(NormalizeKernel kernel, const NormalizeArgs& args, unsigned grid_x, unsigned grid_y,
               unsigned block_x);

}  // namespace shardfeed

#endif  // SHARDFEED_TESTS_CUDA_STAND_IN_KERNELS_H_
