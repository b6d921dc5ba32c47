#include "decode/arrow/import.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

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

// The number after a prefix such as "+w:" or "w:".
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

// The value of a key of a schema's metadata; nullopt: it has none. The metadata is the number of
// pairs, and for each one the sizes of key and value, each before its bytes.
std::optional<std::string_view> MetadataOf(const ArrowSchema& schema, std::string_view key) {
  const char* at = schema.metadata;
  if (at == nullptr) return std::nullopt;
  const auto take = [&at] {
    int32_t number;
    std::memcpy(&number, at, sizeof(number));
    at += sizeof(number);
    return number;
  };
  const auto text = [&] {
    const auto size = static_cast<size_t>(std::max(take(), 0));
    const std::string_view found(at, size);
    at += size;
    return found;
  };
  for (int32_t pairs = take(); pairs > 0; --pairs) {
    const std::string_view name = text();
    const std::string_view value = text();
    if (name == key) return value;
  }
  return std::nullopt;
}

// Refuses extension types whose values are more than those of their storage. Returns the shape of a
// row of tensors, which is JSON; empty: the type has none.
absl::StatusOr<std::vector<int64_t>> ShapeOfExtension(std::string_view name,
                                                      const ArrowSchema& schema) {
  std::vector<int64_t> shape;
  const std::optional<std::string_view> extension = MetadataOf(schema, "ARROW:extension:name");
  if (!extension) return shape;
  constexpr std::string_view kTensor = "arrow.fixed_shape_tensor";
  constexpr std::string_view kRaysTensors[] = {"ray.data.arrow_tensor", "ray.data.arrow_tensor_v2"};
  constexpr std::string_view kStored[] = {"arrow.uuid", "arrow.json", "arrow.bool8"};
  const bool is_rays = std::ranges::find(kRaysTensors, *extension) != std::end(kRaysTensors);
  if (*extension != kTensor && !is_rays) {
    if (std::ranges::find(kStored, *extension) != std::end(kStored)) return shape;
    return Refuse(name, fmt::format("its type is the extension {} of Arrow, whose values are not "
                                    "known here; cast it to its storage type if those values are "
                                    "to be written",
                                    *extension));
  }
  using Json = nlohmann::json;
  const Json type = Json::parse(MetadataOf(schema, "ARROW:extension:metadata").value_or(""),
                                nullptr, /*allow_exceptions=*/false);
  if (type.is_object() && type.contains("permutation")) {
    const Json& order = type["permutation"];
    if (!order.is_null() && !std::is_sorted(order.begin(), order.end())) {
      return Refuse(name,
                    "it has permuted tensors, whose values lie in another order than that of "
                    "their sizes; make them contiguous");
    }
  }
  // Old versions of Ray pickle it, so their tensors are lists.
  const Json sizes = is_rays ? type : type.is_object() ? type.value("shape", Json()) : Json();
  if (!sizes.is_array()) return shape;
  for (const Json& size : sizes) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX) {
      return Refuse(name, "the shape of its tensors is not one of whole numbers");
    }
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

// Checks that an array has the structure that its type requires.
absl::Status CheckShape(std::string_view name, const ArrowArray& array, int64_t buffers,
                        int64_t children) {
  if (array.n_buffers != buffers || array.n_children != children || array.length < 0 ||
      array.offset < 0 || (buffers > 0 && array.buffers == nullptr)) {
    return Refuse(name, "its array does not have the structure of its type");
  }
  return absl::OkStatus();
}

// Returns the message for a type that has no counterpart in records: its name, and what to convert
// it to.
std::string NoCounterpart(std::string_view format) {
  struct Name {
    std::string_view prefix;
    std::string_view name;
    std::string_view remedy;
  };
  constexpr std::string_view kTimes = "cast it to int64, in a unit that you choose, or to strings";
  static constexpr Name kNames[] = {
      {"ts", "timestamps", kTimes},
      {"td", "dates", kTimes},
      {"tt", "times", kTimes},
      {"tD", "durations", "cast it to int64, in a unit that you choose"},
      {"ti", "intervals", "make its parts columns"},
      {"d:", "decimals", "cast it to float64, or to strings, which keep all digits"},
      {"+s", "structs", "make their fields columns (flatten in pyarrow, unnest in polars)"},
      {"+m", "maps", "make the keys and the values a list each"},
      {"+u", "unions", "make a column of each of its types"},
      {"+r", "runs", "decode them (pyarrow.compute.run_end_decode)"},
      {"+v", "views of lists", "cast it to plain lists"},
      {"+", "lists of lists", "write the values as one list, and the lengths as another column"},
  };
  for (const Name& one : kNames) {
    if (!format.starts_with(one.prefix)) continue;
    return fmt::format("records have no counterpart of {} (Arrow's type '{}'); {}, or leave it out",
                       one.name, format, one.remedy);
  }
  return fmt::format(
      "records have no counterpart of Arrow's type '{}'; cast it to int64, float32, "
      "binary, or a list of one of these, or leave it out",
      format);
}

// The decoded values of a dictionary-encoded column, which holds the number of a category for each
// element.
template <typename T>
struct Decoded {
  std::vector<T> values;
  std::vector<uint8_t> is_set;  // bits
};

// Visits the elements of `indices` from its offset up to its length: whether each has a value, and
// the number of that value in the dictionary.
template <typename Index>
absl::Status VisitIndices(std::string_view name, const ArrowArray& indices, uint64_t values,
                          const BitView& value_is_set, const auto& visit) {
  const auto* const numbers = static_cast<const Index*>(indices.buffers[1]);
  const BitView is_set = Validity(indices);
  for (uint64_t i = 0; i < static_cast<uint64_t>(indices.length); ++i) {
    const uint64_t at = i + static_cast<uint64_t>(indices.offset);
    bool has_value = is_set[i];
    uint64_t value = 0;
    if (has_value) {
      if (std::cmp_less(numbers[at], 0) || std::cmp_greater_equal(numbers[at], values)) {
        return Refuse(name,
                      fmt::format("row {}: category {} does not exist: there are {}, numbered "
                                  "from 0",
                                  i, numbers[at], values));
      }
      value = static_cast<uint64_t>(numbers[at]);
      has_value = value_is_set[value];
    }
    visit(i, has_value, value);
  }
  return absl::OkStatus();
}

absl::Status VisitIndices(std::string_view name, std::string_view format, const ArrowArray& indices,
                          uint64_t values, const BitView& value_is_set, const auto& visit) {
  const auto as = [&]<typename Index>(Index) {
    return VisitIndices<Index>(name, indices, values, value_is_set, visit);
  };
  if (format == "c") return as(int8_t{});
  if (format == "C") return as(uint8_t{});
  if (format == "s") return as(int16_t{});
  if (format == "S") return as(uint16_t{});
  if (format == "i") return as(int32_t{});
  if (format == "I") return as(uint32_t{});
  if (format == "l") return as(int64_t{});
  if (format == "L") return as(uint64_t{});
  return Refuse(
      name,
      fmt::format("its categories are numbered by '{}', which is not an integer type", format));
}

absl::Status TakeValues(std::string_view name, const ArrowSchema& schema, const ArrowArray& array,
                        ExampleColumn* column);

// Makes a column of the values that the categories of a dictionary-encoded array stand for.
absl::Status TakeDictionary(std::string_view name, const ArrowSchema& schema,
                            const ArrowArray& array, ExampleColumn* column) {
  if (schema.dictionary == nullptr || array.dictionary == nullptr ||
      schema.dictionary->format == nullptr) {
    return Refuse(name, "its array does not have the structure of its type");
  }
  if (schema.dictionary->dictionary != nullptr) {
    return Refuse(name, "the values of its categories are categories; cast it to their values");
  }
  const ArrowArray& dictionary = *array.dictionary;
  absl::Status status = CheckShape(name, array, 2, 0);
  ExampleColumn values;
  if (status.ok()) status = TakeValues(name, *schema.dictionary, dictionary, &values);
  if (!status.ok()) return status;
  if (array.length > 0 && array.buffers[1] == nullptr) {
    return Refuse(name, "its array has no values");
  }
  const bool nothing = values.type == Type::kNull;
  const BitView value_is_set = nothing ? BitView() : Validity(dictionary);
  const auto count = static_cast<uint64_t>(array.length);
  const auto decode = [&]<typename T>(T, const auto& value_at) {
    const auto made = std::make_shared<Decoded<T>>();
    made->values.resize(count);
    made->is_set.assign(count / 8 + 1, 0);
    status = VisitIndices(name, schema.format, array, static_cast<uint64_t>(dictionary.length),
                          value_is_set, [&](uint64_t i, bool has_value, uint64_t value) {
                            if (!has_value || nothing) return;
                            made->values[i] = value_at(value + values.first);
                            made->is_set[i / 8] |= static_cast<uint8_t>(1U << i % 8);
                          });
    column->values = made->values.data();
    column->element_is_set = {made->is_set.data(), 0};
    column->held = made;
  };
  const auto numbers = [&]<typename T>(T zero) {
    decode(zero, [&](uint64_t i) { return static_cast<const T*>(values.values)[i]; });
  };
  column->type = values.type;
  switch (values.type) {
    case Type::kBool:
      column->type = Type::kUInt8;
      decode(uint8_t{}, [&](uint64_t i) { return static_cast<uint8_t>(values.truth[i]); });
      break;
    case Type::kInt8:
    case Type::kUInt8:
      numbers(uint8_t{});
      break;
    case Type::kInt16:
    case Type::kUInt16:
    case Type::kFloat16:
    case Type::kBFloat16:
      numbers(uint16_t{});
      break;
    case Type::kInt32:
    case Type::kUInt32:
    case Type::kFloat32:
      numbers(uint32_t{});
      break;
    case Type::kInt64:
    case Type::kUInt64:
    case Type::kFloat64:
      numbers(uint64_t{});
      break;
    case Type::kNull:
      break;
    default:
      column->type = Type::kView;
      decode(std::string_view(), [&](uint64_t i) { return values.StringAt(i); });
  }
  return status;
}

// Takes the values of an array that is not a list. If they are categories, `column` also gets the
// bits of those that have a value.
absl::Status TakeValues(std::string_view name, const ArrowSchema& schema, const ArrowArray& array,
                        ExampleColumn* column) {
  if (const auto shape = ShapeOfExtension(name, schema); !shape.ok()) return shape.status();
  if (schema.dictionary != nullptr || array.dictionary != nullptr) {
    return TakeDictionary(name, schema, array, column);
  }
  const std::string_view format = schema.format;
  const std::optional<Type> type = TypeOf(format);
  if (!type) return Refuse(name, NoCounterpart(format));
  column->type = *type;
  // Some libraries have a buffer of validity here, although all values are missing.
  if (*type == Type::kNull) return CheckShape(name, array, array.n_buffers == 1 ? 1 : 0, 0);
  const bool strings = *type == Type::kString32 || *type == Type::kString64;
  // Views have any number of buffers with bytes, followed by one with their sizes.
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
    if (schema.format == nullptr) return Refuse(column.name, "its type is missing");
    absl::Status status = TakeValues(column.name, schema, array, &column);
    if (!status.ok()) return status;
    column.first += first;
    if (column.type != Type::kNull) {
      column.row_is_set = array.dictionary != nullptr ? column.element_is_set : Validity(array);
      column.row_is_set.offset += first;
      column.element_is_set = {};
    }
    return column;
  }
  absl::StatusOr<std::vector<int64_t>> shape = ShapeOfExtension(column.name, schema);
  absl::Status status = shape.status();
  if (status.ok()) status = CheckShape(column.name, array, fixed ? 1 : 2, 1);
  if (status.ok() && (schema.n_children != 1 || schema.children == nullptr ||
                      schema.children[0]->format == nullptr || array.children == nullptr)) {
    status = Refuse(column.name, "its list has no elements' type");
  }
  if (!status.ok()) return status;
  const ArrowArray& elements = *array.children[0];
  status = TakeValues(column.name, *schema.children[0], elements, &column);
  if (!status.ok()) return status;
  column.row_is_set = Validity(array);
  column.row_is_set.offset += first;
  if (column.type == Type::kNull && elements.length > 0) {
    return Refuse(column.name, "the elements of its lists are missing");
  }
  if (column.type != Type::kNull && elements.null_count != 0 && elements.dictionary == nullptr) {
    column.element_is_set = Validity(elements);
    column.element_is_set.offset = 0;  // elements are counted with the array's offset
  }
  column.is_list = true;
  column.shape = *std::move(shape);
  uint64_t size = 1;
  for (const int64_t length : column.shape) {
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(length), &size)) {
      return Refuse(column.name, "its tensors are too large");
    }
  }
  // Lists of nothing have the kind of their elements, which nothing tells.
  const auto begin = static_cast<uint64_t>(array.offset) + first;
  uint64_t last = 0;
  if (fixed) {
    column.width = *fixed;
    if (!column.shape.empty() && size != *fixed) {
      return Refuse(column.name, "its lists do not have the size of its tensors");
    }
    column.first += begin * *fixed;
    last = (begin + static_cast<uint64_t>(rows)) * *fixed;
  } else if (rows > 0) {
    if (array.buffers[1] == nullptr) return Refuse(column.name, "its lists have no offsets");
    bool even = true;
    const auto check = [&](const auto* splits) {
      for (int64_t i = 0; i < rows; ++i) {
        if (splits[i] < 0 || splits[i + 1] < splits[i]) return false;
      }
      for (int64_t i = 0; i < rows && even && !column.shape.empty(); ++i) {
        const auto elements = static_cast<uint64_t>(splits[i + 1] - splits[i]);
        even = elements == size || !column.row_is_set[static_cast<uint64_t>(i)];
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
    if (!sound) return Refuse(column.name, "the offsets of its lists decrease");
    if (!even) {
      return Refuse(column.name, "its lists do not have the size of its tensors");
    }
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
