#include "decode/arrow/import.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using Type = ExampleColumn::Type;

absl::Status Refuse(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("column '{}': {}", name, what));
}

std::optional<Type> TypeOf(std::string_view format) {
  static const auto* const types = new std::map<std::string_view, Type>{
      {"n", Type::kNull},       {"b", Type::kBool},     {"c", Type::kInt8},
      {"C", Type::kUInt8},      {"s", Type::kInt16},    {"S", Type::kUInt16},
      {"i", Type::kInt32},      {"I", Type::kUInt32},   {"l", Type::kInt64},
      {"L", Type::kUInt64},     {"e", Type::kFloat16},  {"f", Type::kFloat32},
      {"g", Type::kFloat64},    {"z", Type::kString32}, {"u", Type::kString32},
      {"Z", Type::kString64},   {"U", Type::kString64}, {"vz", Type::kArrowView},
      {"vu", Type::kArrowView},
  };
  if (format.starts_with("w:")) return Type::kFixedBytes;
  const auto it = types->find(format);
  return it == types->end() ? std::nullopt : std::optional(it->second);
}

// The number behind a prefix such as "+w:" or "w:".
std::optional<uint64_t> NumberIn(std::string_view format, std::string_view prefix) {
  uint64_t number = 0;
  if (!format.starts_with(prefix)) return std::nullopt;
  format.remove_prefix(prefix.size());
  const char* const end = format.data() + format.size();
  const auto [stop, error] = std::from_chars(format.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

BitView Validity(const ArrowArray& array) {
  return {static_cast<const uint8_t*>(array.buffers[0]), static_cast<uint64_t>(array.offset)};
}

// Checks what a type says of its array's structure.
absl::Status CheckShape(std::string_view name, const ArrowArray& array, int64_t buffers,
                        int64_t children) {
  if (array.n_buffers != buffers || array.n_children != children || array.length < 0 ||
      array.offset < 0 || (buffers > 0 && array.buffers == nullptr)) {
    return Refuse(name, "its array does not have the structure of its type");
  }
  return absl::OkStatus();
}

// Takes the values of an array that is no list.
absl::Status TakeValues(std::string_view name, std::string_view format, const ArrowArray& array,
                        ExampleColumn* column) {
  const std::optional<Type> type = TypeOf(format);
  if (!type || array.dictionary != nullptr) {
    return Refuse(name,
                  fmt::format("Examples have no counterpart of Arrow's type '{}'{}; cast it to "
                              "int64, float32, binary, or a list of one of these",
                              format, array.dictionary != nullptr ? " with a dictionary" : ""));
  }
  column->type = *type;
  if (*type == Type::kNull) return CheckShape(name, array, 0, 0);
  const bool strings = *type == Type::kString32 || *type == Type::kString64;
  // Views have any number of buffers with bytes, and behind them one with the sizes of these.
  const bool views = *type == Type::kArrowView;
  absl::Status status = CheckShape(name, array,
                                   strings ? 3
                                   : views ? std::max<int64_t>(array.n_buffers, 3)
                                           : 2,
                                   0);
  if (!status.ok()) return status;
  column->first = static_cast<uint64_t>(array.offset);
  if (*type == Type::kBool) {
    column->truth = {static_cast<const uint8_t*>(array.buffers[1]), 0};
  } else if (*type == Type::kFixedBytes) {
    const std::optional<uint64_t> size = NumberIn(format, "w:");
    if (!size) return Refuse(name, fmt::format("'{}' is not a type of Arrow", format));
    column->string_bytes = *size;
    column->bytes = static_cast<const char*>(array.buffers[1]);
  } else {
    column->values = array.buffers[1];
  }
  if (strings) column->bytes = static_cast<const char*>(array.buffers[2]);
  if (views) column->buffers = array.buffers + 2;
  // An array without elements may have no buffers.
  if (array.length > 0 && array.buffers[1] == nullptr &&
      !(*type == Type::kFixedBytes && column->string_bytes == 0)) {
    return Refuse(name, "its array has no values");
  }
  return absl::OkStatus();
}

// `offset`: the batch's own, which its columns have as well.
absl::StatusOr<ExampleColumn> ColumnOf(const ArrowSchema& schema, const ArrowArray& array,
                                       int64_t offset, int64_t rows) {
  ExampleColumn column;
  column.name = schema.name == nullptr ? "" : schema.name;
  const std::string_view format = schema.format == nullptr ? "" : schema.format;
  if (array.length < offset + rows) return Refuse(column.name, "it has fewer rows than its batch");
  const auto first = static_cast<uint64_t>(offset);
  const bool list32 = format == "+l";
  const bool list64 = format == "+L";
  const std::optional<uint64_t> fixed = NumberIn(format, "+w:");
  if (!list32 && !list64 && !fixed) {
    absl::Status status = TakeValues(column.name, format, array, &column);
    if (!status.ok()) return status;
    column.first += first;
    if (column.type != Type::kNull) {
      column.row_is_set = Validity(array);
      column.row_is_set.offset += first;
    }
    return column;
  }
  absl::Status status = CheckShape(column.name, array, fixed ? 1 : 2, 1);
  if (status.ok() && (schema.n_children != 1 || schema.children == nullptr ||
                      schema.children[0]->format == nullptr || array.children == nullptr)) {
    status = Refuse(column.name, "its list has no elements' type");
  }
  if (!status.ok()) return status;
  const ArrowArray& elements = *array.children[0];
  status = TakeValues(column.name, schema.children[0]->format, elements, &column);
  if (!status.ok()) return status;
  column.row_is_set = Validity(array);
  column.row_is_set.offset += first;
  if (column.type == Type::kNull && elements.length > 0) {
    return Refuse(column.name, "the elements of its lists are missing");
  }
  if (column.type != Type::kNull && elements.null_count != 0) {
    column.element_is_set = Validity(elements);
    column.element_is_set.offset = 0;  // elements are counted with the array's offset
  }
  column.is_list = true;
  // Lists of nothing have the kind of their elements, which nothing tells.
  const auto begin = static_cast<uint64_t>(array.offset) + first;
  uint64_t last = 0;
  if (fixed) {
    column.width = *fixed;
    column.first += begin * *fixed;
    last = (begin + static_cast<uint64_t>(rows)) * *fixed;
  } else if (rows > 0) {
    if (array.buffers[1] == nullptr) return Refuse(column.name, "its lists have no offsets");
    const auto check = [&](const auto* splits) {
      for (int64_t i = 0; i < rows; ++i) {
        if (splits[i] < 0 || splits[i + 1] < splits[i]) return false;
      }
      last = static_cast<uint64_t>(splits[rows]);
      return true;
    };
    bool sound;
    if (list32) {
      column.splits32 = static_cast<const int32_t*>(array.buffers[1]) + begin;
      sound = check(column.splits32);
    } else {
      column.splits64 = static_cast<const int64_t*>(array.buffers[1]) + begin;
      sound = check(column.splits64);
    }
    if (!sound) return Refuse(column.name, "the offsets of its lists fall");
  }
  if (last > static_cast<uint64_t>(elements.length)) {
    return Refuse(column.name, "its lists reach beyond their elements");
  }
  return column;
}

}  // namespace

absl::StatusOr<std::vector<ExampleColumn>> ColumnsFromArrow(const ArrowSchema& schema,
                                                            const ArrowArray& batch) {
  const std::string_view format = schema.format == nullptr ? "" : schema.format;
  if (format != "+s") {
    return absl::InvalidArgumentError(fmt::format(
        "expected a record batch or a table of Arrow, got an array of type '{}'", format));
  }
  if (schema.n_children != batch.n_children || batch.n_buffers != 1 || batch.length < 0 ||
      batch.offset < 0 || (batch.n_children > 0 && batch.children == nullptr)) {
    return absl::InvalidArgumentError("the record batch does not have its schema's structure");
  }
  if (batch.buffers != nullptr && batch.buffers[0] != nullptr && batch.null_count != 0) {
    return absl::InvalidArgumentError(
        "expected a record batch, got a struct array in which whole rows are missing");
  }
  std::vector<ExampleColumn> columns;
  for (int64_t i = 0; i < schema.n_children; ++i) {
    absl::StatusOr<ExampleColumn> column =
        ColumnOf(*schema.children[i], *batch.children[i], batch.offset, batch.length);
    if (!column.ok()) return column.status();
    columns.push_back(*std::move(column));
  }
  return columns;
}

}  // namespace shardfeed
