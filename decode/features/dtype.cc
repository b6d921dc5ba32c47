#include "shardfeed/schema.h"

namespace shardfeed {
namespace {

struct Properties {
  std::string_view name;
  size_t size;
};

constexpr Properties PropertiesOf(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return {"uint8", 1};
    case DType::kInt8:
      return {"int8", 1};
    case DType::kUInt16:
      return {"uint16", 2};
    case DType::kInt16:
      return {"int16", 2};
    case DType::kInt32:
      return {"int32", 4};
    case DType::kInt64:
      return {"int64", 8};
    case DType::kFloat16:
      return {"float16", 2};
    case DType::kBFloat16:
      return {"bfloat16", 2};
    case DType::kFloat32:
      return {"float32", 4};
    case DType::kFloat64:
      return {"float64", 8};
    case DType::kBytes:
      return {"bytes", sizeof(std::string_view)};
  }
  return {"unknown", 1};
}

}  // namespace

size_t DTypeSize(DType dtype) { return PropertiesOf(dtype).size; }

std::string_view DTypeName(DType dtype) { return PropertiesOf(dtype).name; }

}  // namespace shardfeed
