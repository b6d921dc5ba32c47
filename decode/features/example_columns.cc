#include "decode/features/example_columns.h"

#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "absl/types/span.h"
#include "decode/features/float16.h"
#include "decode/features/utf8.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using Type = ExampleColumn::Type;

absl::Status Refuse(const ExampleColumn& column, uint64_t row, std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("feature '{}', row {}: {}", column.name, row, what));
}

template <typename T>
void AppendInts(const ExampleColumn& column, uint64_t begin, uint64_t end,
                std::vector<int64_t>* ints) {
  const T* values = static_cast<const T*>(column.values);
  ints->assign(values + begin, values + end);
}

template <typename Offset>
std::string_view StringBetween(const ExampleColumn& column, uint64_t i) {
  const Offset* const offsets = static_cast<const Offset*>(column.values);
  return {column.bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
}

// A view is {int32 size, char[12]} or {int32 size, char[4] prefix, int32 buffer, int32 offset}.
std::string_view ViewAt(const ExampleColumn& column, uint64_t i) {
  constexpr size_t kInside = 12;
  const char* const view = static_cast<const char*>(column.values) + 16 * i;
  const auto number = [view](size_t at) {
    int32_t value;
    std::memcpy(&value, view + at, sizeof(value));
    return value;
  };
  const auto size = static_cast<size_t>(number(0));
  if (size <= kInside) return {view + 4, size};
  return {static_cast<const char*>(column.buffers[number(8)]) + number(12), size};
}

}  // namespace

absl::StatusOr<ExampleColumns> ExampleColumns::Make(std::vector<ExampleColumn> columns) {
  std::set<std::string_view> names;
  for (const ExampleColumn& column : columns) {
    if (FindInvalidUtf8(column.name) != std::string_view::npos) {
      return absl::InvalidArgumentError("the name of a feature is not UTF-8");
    }
    if (!names.insert(column.name).second) {
      return absl::InvalidArgumentError(fmt::format("feature '{}' appears twice", column.name));
    }
  }
  return ExampleColumns(std::move(columns));
}

std::pair<uint64_t, uint64_t> ExampleColumn::ElementsOf(uint64_t row) const {
  uint64_t begin = row * width;
  uint64_t end = begin + width;
  if (splits32 != nullptr) {
    begin = static_cast<uint64_t>(splits32[row]);
    end = static_cast<uint64_t>(splits32[row + 1]);
  } else if (splits64 != nullptr) {
    begin = static_cast<uint64_t>(splits64[row]);
    end = static_cast<uint64_t>(splits64[row + 1]);
  }
  return {begin + first, end + first};
}

std::string_view ExampleColumn::StringAt(uint64_t element) const {
  switch (type) {
    case Type::kView:
      return static_cast<const std::string_view*>(values)[element];
    case Type::kString32:
      return StringBetween<int32_t>(*this, element);
    case Type::kString64:
      return StringBetween<int64_t>(*this, element);
    case Type::kFixedBytes:
      return {bytes + element * string_bytes, string_bytes};
    case Type::kArrowView:
      return ViewAt(*this, element);
    default:
      return {};
  }
}

absl::Status ExampleColumns::Add(const ExampleColumn& column, uint64_t row) {
  if (column.type == Type::kNull || !column.row_is_set[row]) return absl::OkStatus();
  const auto [begin, end] = column.ElementsOf(row);
  if (column.element_is_set.bits != nullptr) {
    for (uint64_t i = begin; i < end; ++i) {
      if (column.element_is_set[i]) continue;
      return Refuse(column, row,
                    fmt::format("element {} is missing, and an Example's lists have no place for "
                                "missing elements; fill it, or leave out the row's whole list",
                                i - begin));
    }
  }
  switch (column.type) {
    case Type::kBool:
      ints_.clear();
      for (uint64_t i = begin; i < end; ++i) ints_.push_back(column.truth[i] ? 1 : 0);
      break;
    case Type::kInt8:
      AppendInts<int8_t>(column, begin, end, &ints_);
      break;
    case Type::kUInt8:
      AppendInts<uint8_t>(column, begin, end, &ints_);
      break;
    case Type::kInt16:
      AppendInts<int16_t>(column, begin, end, &ints_);
      break;
    case Type::kUInt16:
      AppendInts<uint16_t>(column, begin, end, &ints_);
      break;
    case Type::kInt32:
      AppendInts<int32_t>(column, begin, end, &ints_);
      break;
    case Type::kUInt32:
      AppendInts<uint32_t>(column, begin, end, &ints_);
      break;
    case Type::kInt64: {
      const auto* values = static_cast<const int64_t*>(column.values);
      builder_.AddInt64List(column.name, absl::Span<const int64_t>(values + begin, end - begin));
      return absl::OkStatus();
    }
    case Type::kUInt64: {
      const auto* values = static_cast<const uint64_t*>(column.values);
      for (uint64_t i = begin; i < end; ++i) {
        if (values[i] <= INT64_MAX) continue;
        return Refuse(column, row, fmt::format("{} is out of the range of int64", values[i]));
      }
      AppendInts<uint64_t>(column, begin, end, &ints_);
      break;
    }
    case Type::kFloat32: {
      const auto* values = static_cast<const float*>(column.values);
      builder_.AddBorrowedFloatList(column.name,
                                    absl::Span<const float>(values + begin, end - begin));
      return absl::OkStatus();
    }
    case Type::kFloat16:
    case Type::kBFloat16: {
      const auto* values = static_cast<const uint16_t*>(column.values);
      floats_.clear();
      for (uint64_t i = begin; i < end; ++i) {
        floats_.push_back(column.type == Type::kFloat16
                              ? FromFloat16(values[i])
                              : std::bit_cast<float>(uint32_t{values[i]} << 16));
      }
      builder_.AddFloatList(column.name, floats_);
      return absl::OkStatus();
    }
    case Type::kFloat64: {
      const auto* values = static_cast<const double*>(column.values);
      floats_.clear();
      for (uint64_t i = begin; i < end; ++i) {
        const auto rounded = static_cast<float>(values[i]);
        if (std::isinf(rounded) && !std::isinf(values[i])) {
          return Refuse(column, row, fmt::format("{} is out of the range of float32", values[i]));
        }
        floats_.push_back(rounded);
      }
      builder_.AddFloatList(column.name, floats_);
      return absl::OkStatus();
    }
    case Type::kView: {
      const auto* values = static_cast<const std::string_view*>(column.values);
      builder_.AddBytesList(column.name, {values + begin, end - begin});
      return absl::OkStatus();
    }
    case Type::kString32:
    case Type::kString64:
    case Type::kFixedBytes:
    case Type::kArrowView:
      strings_.clear();
      for (uint64_t i = begin; i < end; ++i) strings_.push_back(column.StringAt(i));
      builder_.AddBytesList(column.name, strings_);
      return absl::OkStatus();
    case Type::kNull:
      return absl::OkStatus();
  }
  builder_.AddInt64List(column.name, ints_);
  return absl::OkStatus();
}

absl::Status ExampleColumns::Serialize(uint64_t row, std::string* record) {
  builder_.Clear();
  for (const ExampleColumn& column : columns_) {
    if (absl::Status status = Add(column, row); !status.ok()) return status;
  }
  builder_.SerializeExample(record);
  return absl::OkStatus();
}

}  // namespace shardfeed
