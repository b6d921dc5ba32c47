#include "pipeline/rows/decoders.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "decode/features/npy.h"
#include "decode/features/utf8.h"
#include "decode/features/wav.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

std::string_view BytesOf(const RowContext& row, size_t number) {
  return row.In<std::string_view>(number)[0];
}

template <typename T>
void CopyValues(std::string_view bytes, bool ragged, size_t elements, RowContext& row) {
  absl::Span<T> to = ragged ? row.Extend<T>(0, elements) : row.Out<T>(0);
  if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
}

// Copies `bytes`, which are whole elements of `spec`, to the step's first output.
void CopyValues(std::string_view bytes, const ColumnSpec& spec, RowContext& row) {
  const size_t n = bytes.size() / spec.bytes();
  switch (spec.dtype) {
    case DType::kUInt8:
      return CopyValues<uint8_t>(bytes, spec.ragged, n, row);
    case DType::kInt8:
      return CopyValues<int8_t>(bytes, spec.ragged, n, row);
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return CopyValues<uint16_t>(bytes, spec.ragged, n, row);
    case DType::kInt16:
      return CopyValues<int16_t>(bytes, spec.ragged, n, row);
    case DType::kInt32:
      return CopyValues<int32_t>(bytes, spec.ragged, n, row);
    case DType::kInt64:
      return CopyValues<int64_t>(bytes, spec.ragged, n, row);
    case DType::kFloat32:
      return CopyValues<float>(bytes, spec.ragged, n, row);
    case DType::kFloat64:
      return CopyValues<double>(bytes, spec.ragged, n, row);
    case DType::kBytes:
      return;  // no step has an output of another type
  }
}

// Prepends the column's name to the message of `status`.
absl::Status AddColumn(std::string_view column, const absl::Status& status) {
  return absl::Status(status.code(),
                      fmt::format("column '{}': {}", column, std::string(status.message())));
}

}  // namespace

std::shared_ptr<const RowStep> MakeDecodeRawStep(const ColumnSpec& output, size_t number) {
  MapFn fn = [output, number](RowContext& row) -> absl::Status {
    const std::string_view bytes = BytesOf(row, number);
    if (output.ragged ? bytes.size() % output.bytes() != 0 : bytes.size() != output.bytes()) {
      return absl::InvalidArgumentError(fmt::format(
          "column '{}' has {}; {} [{}] takes {}{}", output.name, CountText(bytes.size(), "byte"),
          DTypeName(output.dtype), fmt::join(output.shape, ", "),
          output.ragged ? "a multiple of " : "", output.bytes()));
    }
    CopyValues(bytes, output, row);
    return absl::OkStatus();
  };
  return MakeMapStep({output}, {}, std::move(fn), 0, "decode_raw");
}

std::shared_ptr<const RowStep> MakeDecodeNpyStep(const ColumnSpec& output, size_t number) {
  MapFn fn = [output, number](RowContext& row) -> absl::Status {
    absl::StatusOr<NpyArray> array = ParseNpy(BytesOf(row, number));
    if (!array.ok()) return AddColumn(output.name, array.status());
    absl::Span<const int64_t> shape = array->shape;
    const bool has_length = !output.ragged || !shape.empty();
    if (output.ragged && has_length) shape.remove_prefix(1);
    if (array->dtype != output.dtype || !has_length ||
        !std::equal(shape.begin(), shape.end(), output.shape.begin(), output.shape.end())) {
      return absl::InvalidArgumentError(fmt::format(
          "column '{}' holds {} [{}], expected {} [{}{}]", output.name, DTypeName(array->dtype),
          fmt::join(array->shape, ", "), DTypeName(output.dtype),
          !output.ragged         ? ""
          : output.shape.empty() ? "any"
                                 : "any, ",
          fmt::join(output.shape, ", ")));
    }
    CopyValues(array->values, output, row);
    return absl::OkStatus();
  };
  return MakeMapStep({output}, {}, std::move(fn), 0, "decode_npy");
}

std::shared_ptr<const RowStep> MakeDecodeTextStep(std::string column, size_t number) {
  MapFn fn = [column = std::move(column), number](RowContext& row) -> absl::Status {
    const std::string_view bytes = BytesOf(row, number);
    const size_t at = FindInvalidUtf8(bytes);
    if (at == bytes.npos) return absl::OkStatus();
    return absl::DataLossError(
        fmt::format("column '{}': the text is not UTF-8: byte {} of {} begins {:?}", column, at,
                    bytes.size(), bytes.substr(at, 4)));
  };
  return MakeMapStep({}, {}, std::move(fn), 0, "decode_text");
}

std::shared_ptr<const RowStep> MakeDecodeWavStep(std::string column, size_t number,
                                                 int64_t channels, std::string rate) {
  MapFn fn = [column, number, channels](RowContext& row) -> absl::Status {
    absl::StatusOr<WavSound> sound = ParseWav(BytesOf(row, number));
    if (!sound.ok()) return AddColumn(column, sound.status());
    if (sound->channels != channels) {
      return absl::InvalidArgumentError(
          fmt::format("column '{}': the sound has {} channels, "
                      "expected {}",
                      column, sound->channels, channels));
    }
    ToFloat(*sound, row.Extend<float>(0, sound->frames).data());
    row.Out<int32_t>(1)[0] =
        static_cast<int32_t>(std::min<uint32_t>(sound->sample_rate, INT32_MAX));
    return absl::OkStatus();
  };
  return MakeMapStep({{column, DType::kFloat32, {channels}, true}, {rate, DType::kInt32, {}}}, {},
                     std::move(fn), 0, "decode_wav");
}

}  // namespace shardfeed
