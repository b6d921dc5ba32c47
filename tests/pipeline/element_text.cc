#include "tests/pipeline/element_text.h"

namespace shardfeed::testing {
namespace {

nlohmann::json Value(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kUInt8:
      return *reinterpret_cast<const uint8_t*>(at);
    case DType::kInt8:
      return *reinterpret_cast<const int8_t*>(at);
    case DType::kUInt16:
      return *reinterpret_cast<const uint16_t*>(at);
    case DType::kInt16:
      return *reinterpret_cast<const int16_t*>(at);
    case DType::kInt32:
      return *reinterpret_cast<const int32_t*>(at);
    case DType::kInt64:
      return *reinterpret_cast<const int64_t*>(at);
    case DType::kFloat32:
      return *reinterpret_cast<const float*>(at);
    case DType::kFloat64:
      return *reinterpret_cast<const double*>(at);
    case DType::kBytes:
      return std::string(*reinterpret_cast<const std::string_view*>(at));
    default:
      return nullptr;
  }
}

// The values of shape[dimension...] at `at`, which is advanced past them.
nlohmann::json Nested(DType dtype, const std::vector<int64_t>& shape, size_t dimension,
                      const char*& at) {
  if (dimension == shape.size()) {
    nlohmann::json value = Value(dtype, at);
    at += DTypeSize(dtype);
    return value;
  }
  nlohmann::json values = nlohmann::json::array();
  for (int64_t i = 0; i < shape[dimension]; ++i) {
    values.push_back(Nested(dtype, shape, dimension + 1, at));
  }
  return values;
}

}  // namespace

nlohmann::json ElementJson(const Batch& batch) {
  nlohmann::json element = nlohmann::json::object();
  for (size_t c = 0; c < batch.columns.size(); ++c) {
    const ColumnSpec& spec = (*batch.spec)[c];
    const Column& column = batch.columns[c];
    nlohmann::json rows = nlohmann::json::array();
    for (size_t r = 0; r < batch.rows; ++r) {
      if (!spec.ragged) {
        const char* at = column.data + r * spec.bytes();
        rows.push_back(Nested(spec.dtype, spec.shape, 0, at));
        continue;
      }
      nlohmann::json row = nlohmann::json::array();
      const char* at = column.data + column.splits[r] * spec.bytes();
      for (int64_t i = column.splits[r]; i < column.splits[r + 1]; ++i) {
        row.push_back(Nested(spec.dtype, spec.shape, 0, at));
      }
      rows.push_back(std::move(row));
    }
    element[spec.name] = batch.batched ? std::move(rows) : rows[0];
  }
  return element;
}

}  // namespace shardfeed::testing
