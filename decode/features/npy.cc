#include "decode/features/npy.h"

#include <algorithm>
#include <utility>

#include "decode/features/npy_header.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

// Finds the type by its name without the byte order character.
bool FindDType(std::string_view name, DType* dtype) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"b1", DType::kUInt8},   {"u1", DType::kUInt8},   {"i1", DType::kInt8},
      {"u2", DType::kUInt16},  {"i2", DType::kInt16},   {"i4", DType::kInt32},
      {"i8", DType::kInt64},   {"f2", DType::kFloat16}, {"f4", DType::kFloat32},
      {"f8", DType::kFloat64},
  };
  for (const auto& [known, type] : kTypes) {
    if (name != known) continue;
    *dtype = type;
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<NpyArray> ParseNpy(std::string_view bytes) {
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(bytes);
  if (!header.ok()) return header.status();
  NpyArray array;
  const std::string& descr = header->descr;
  const char order = descr.empty() ? '?' : descr[0];
  if ((order != '<' && order != '|' && order != '>') ||
      !FindDType(std::string_view(descr).substr(1), &array.dtype)) {
    return absl::DataLossError(
        fmt::format("values of type {:?}; expected booleans, uint8, uint16, int8 to int64 or "
                    "float16 to float64: save it with a.astype",
                    std::string_view(descr).substr(0, 60)));
  }
  const size_t size = DTypeSize(array.dtype);
  if (order == '>' && size > 1) {
    return absl::DataLossError(fmt::format(
        "values of type {:?}, big-endian; save it with a.astype(a.dtype.newbyteorder('<'))",
        descr));
  }
  if (header->fortran_order && header->shape.size() > 1) {
    return absl::DataLossError(
        "in Fortran order (columns first); save it with numpy.ascontiguousarray(a)");
  }
  const uint64_t there = bytes.size() - header->data_offset;
  unsigned __int128 expected = size;
  for (uint64_t dimension : header->shape) {
    if (dimension > INT64_MAX) {
      return absl::DataLossError(fmt::format("a dimension of {}", dimension));
    }
    expected = std::min<unsigned __int128>(expected * dimension, UINT64_MAX);
    array.shape.push_back(static_cast<int64_t>(dimension));
  }
  if (expected != there) {
    return absl::DataLossError(
        fmt::format("the header says [{}] values of {} bytes each, but {} bytes follow it: {}",
                    fmt::join(header->shape, ", "), size, there,
                    there < expected ? "the file is cut off" : "there is data after the end"));
  }
  array.values = bytes.substr(header->data_offset);
  return array;
}

}  // namespace shardfeed
