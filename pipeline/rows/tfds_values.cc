#include "pipeline/rows/tfds_values.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/count_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

// No record is larger, and so no array in a record is.
constexpr size_t kMaxArrayBytes = INT32_MAX;

// Decompresses a ZLIB stream. `expected`: the size of the content, or 0 if it is not known.
absl::Status Inflate(std::string_view data, size_t expected, std::string* content) {
  z_stream zlib = {};
  if (inflateInit(&zlib) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&zlib, inflateEnd);
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  zlib.avail_in = static_cast<uInt>(data.size());
  const size_t most = expected == 0 ? kMaxArrayBytes : expected;
  // A size is not believed: memory grows with what was decompressed.
  constexpr size_t kFirstBytes = 64 << 10;
  content->clear();
  int result = Z_OK;
  while (result == Z_OK && content->size() <= most) {
    const size_t have = content->size();
    content->resize(std::min(std::max(kFirstBytes, 2 * have), most + 1));
    zlib.next_out = reinterpret_cast<Bytef*>(content->data() + have);
    zlib.avail_out = static_cast<uInt>(content->size() - have);
    result = inflate(&zlib, Z_NO_FLUSH);
    content->resize(content->size() - zlib.avail_out);
    // No output was written although there was room: the data ends too early.
    if (result == Z_OK && zlib.avail_out > 0) result = Z_BUF_ERROR;
  }
  if (content->size() > most) {
    return absl::InvalidArgumentError(
        fmt::format("a compressed array has more than {} bytes", most));
  }
  if (result != Z_STREAM_END) {
    return absl::DataLossError(fmt::format("an array of {} cannot be decompressed (ZLIB): {}",
                                           CountText(data.size(), "byte"),
                                           zlib.msg != nullptr ? zlib.msg : "it is cut off"));
  }
  if (zlib.avail_in > 0) {
    return absl::DataLossError(
        fmt::format("a compressed array is followed by {}", CountText(zlib.avail_in, "byte")));
  }
  return absl::OkStatus();
}

// Converts values, which need not be aligned. The message names the first that does not fit.
template <typename From, typename To>
absl::Status Convert(const char* from, size_t values, std::string_view dtype, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    if (values > 0) std::memcpy(to, from, values * sizeof(To));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < values; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    if constexpr (std::is_integral_v<From>) {
      if (!std::in_range<To>(value)) {
        return absl::InvalidArgumentError(
            dtype == "uint64"
                ? fmt::format("the uint64 value {} does not fit int64, which stands "
                              "for uint64",
                              static_cast<uint64_t>(value))
                : fmt::format("the value {} does not fit {}, which TFDS declares", value, dtype));
      }
    }
    to[i] = static_cast<To>(value);
  }
  return absl::OkStatus();
}

// Converts the values of the lists of a row.
template <typename From, typename To>
absl::Status ConvertList(const TfdsColumn& column, size_t number, size_t output, RowContext& row) {
  using InList = std::conditional_t<std::is_same_v<From, uint64_t>, int64_t, From>;
  const absl::Span<const InList> values = row.In<InList>(number);
  const absl::Span<To> to = column.output.ragged
                                ? row.Extend<To>(output, values.size() / column.output.num_values())
                                : row.Out<To>(output);
  return Convert<From, To>(reinterpret_cast<const char*>(values.data()), values.size(),
                           column.dtype, to.data());
}

// Converts the arrays that the strings of a row hold.
template <typename From, typename To>
absl::Status ConvertArrays(const TfdsColumn& column, size_t number, size_t output,
                           RowContext& row) {
  const absl::Span<const std::string_view> arrays = row.In<std::string_view>(number);
  const size_t expected = column.array_values * sizeof(From);
  const size_t element = column.output.num_values();
  std::string content;
  To* to = column.output.ragged ? nullptr : row.Out<To>(output).data();
  for (std::string_view array : arrays) {
    if (column.encoding == TfdsEncoding::kZlib) {
      if (absl::Status status = Inflate(array, expected, &content); !status.ok()) return status;
      array = content;
    }
    const size_t unit = expected > 0 ? expected : sizeof(From) * element;
    if (expected > 0 ? array.size() != expected : array.size() % unit != 0) {
      return absl::InvalidArgumentError(fmt::format(
          "an array has {}; {} [{}{}] takes {}{}", CountText(array.size(), "byte"), column.dtype,
          column.output.ragged ? "any, " : "", fmt::join(column.output.shape, ", "),
          expected > 0 ? "" : "a multiple of ", unit));
    }
    const size_t values = array.size() / sizeof(From);
    To* const place = column.output.ragged ? row.Extend<To>(output, values / element).data() : to;
    absl::Status status = Convert<From, To>(array.data(), values, column.dtype, place);
    if (!status.ok()) return status;
    if (to != nullptr) to += values;
  }
  return absl::OkStatus();
}

using ConvertFn = absl::Status (*)(const TfdsColumn&, size_t, size_t, RowContext&);

ConvertFn FunctionOf(const TfdsColumn& column) {
  const std::string& dtype = column.dtype;
  if (column.encoding == TfdsEncoding::kNone) {
    if (dtype == "int8") return ConvertList<int64_t, int8_t>;
    if (dtype == "uint16") return ConvertList<int64_t, uint16_t>;
    if (dtype == "int16") return ConvertList<int64_t, int16_t>;
    if (dtype == "uint64") return ConvertList<uint64_t, int64_t>;
    return ConvertList<float, double>;
  }
  if (dtype == "bool" || dtype == "uint8") return ConvertArrays<uint8_t, uint8_t>;
  if (dtype == "int8") return ConvertArrays<int8_t, int8_t>;
  if (dtype == "uint16" || dtype == "float16" || dtype == "bfloat16") {
    return ConvertArrays<uint16_t, uint16_t>;
  }
  if (dtype == "int16") return ConvertArrays<int16_t, int16_t>;
  if (dtype == "uint32") return ConvertArrays<uint32_t, int64_t>;
  if (dtype == "int32") return ConvertArrays<int32_t, int32_t>;
  if (dtype == "uint64") return ConvertArrays<uint64_t, int64_t>;
  if (dtype == "int64") return ConvertArrays<int64_t, int64_t>;
  if (dtype == "float32") return ConvertArrays<float, float>;
  return ConvertArrays<double, double>;
}

}  // namespace

std::shared_ptr<const RowStep> MakeTfdsStep(std::vector<TfdsColumn> columns,
                                            std::vector<size_t> numbers) {
  RowSpec outputs;
  std::vector<ConvertFn> functions;
  for (const TfdsColumn& column : columns) {
    outputs.push_back(column.output);
    functions.push_back(FunctionOf(column));
  }
  MapFn fn = [columns = std::move(columns), numbers = std::move(numbers),
              functions = std::move(functions)](RowContext& row) -> absl::Status {
    for (size_t i = 0; i < columns.size(); ++i) {
      const absl::Status status = functions[i](columns[i], numbers[i], i, row);
      if (status.ok()) continue;
      return absl::Status(status.code(), fmt::format("column '{}': {}", columns[i].output.name,
                                                     std::string(status.message())));
    }
    return absl::OkStatus();
  };
  return MakeMapStep(std::move(outputs), {}, std::move(fn), 0, "parse");
}

}  // namespace shardfeed
