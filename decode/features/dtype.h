// Types of the elements of a batch.

#ifndef SHARDFEED_DECODE_FEATURES_DTYPE_H_
#define SHARDFEED_DECODE_FEATURES_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardfeed {

enum class DType : uint8_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,   // IEEE 754 binary16
  kBFloat16,  // the upper half of a binary32
  kFloat32,
  kFloat64,
  kBytes,  // a string of bytes; in memory a std::string_view
};

// What an element takes in memory, which is also its alignment's upper bound.
size_t DTypeSize(DType dtype);

// "uint8", "bfloat16", "bytes" ...: NumPy's names where it has the type.
std::string_view DTypeName(DType dtype);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_DTYPE_H_
