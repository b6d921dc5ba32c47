// Arrays in the format of NumPy's .npy files, in memory.
//
// Layout (numpy.org/doc/stable/reference/generated/numpy.lib.format.html): see npy_header.h.

#ifndef SHARDFEED_DECODE_FEATURES_NPY_H_
#define SHARDFEED_DECODE_FEATURES_NPY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// `values` points into the bytes that were parsed: little-endian, in C order, at any alignment.
struct NpyArray {
  DType dtype = DType::kFloat32;  // booleans are kUInt8
  std::vector<int64_t> shape;
  std::string_view values;
};

// DataLoss: not a .npy file, one that is cut off or longer than its header says, a type that is not
// a DType, big-endian numbers, or Fortran order in more than one dimension. The message says how to
// save it again. Any bytes are safe to pass.
absl::StatusOr<NpyArray> ParseNpy(std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_NPY_H_
