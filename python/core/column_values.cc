#include "python/core/column_values.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nanobind/ndarray.h"
#include "python/core/batches.h"
#include "python/core/example_values.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

using Type = ExampleColumn::Type;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

constexpr std::pair<std::string_view, Type> kTypes[] = {
    {"bool", Type::kUInt8},      {"int8", Type::kInt8},         {"uint8", Type::kUInt8},
    {"int16", Type::kInt16},     {"uint16", Type::kUInt16},     {"int32", Type::kInt32},
    {"uint32", Type::kUInt32},   {"int64", Type::kInt64},       {"uint64", Type::kUInt64},
    {"float16", Type::kFloat16}, {"bfloat16", Type::kBFloat16}, {"float32", Type::kFloat32},
    {"float64", Type::kFloat64},
};

// The rows of lists, one after another.
struct ListedRows {
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string_view> bytes;
  std::vector<int64_t> splits = {0};
  std::vector<uint8_t> is_set;  // bits
};

bool IsInteger(nb::handle value) { return PyLong_Check(value.ptr()); }
bool IsFloat(nb::handle value) { return PyFloat_Check(value.ptr()); }
bool IsString(nb::handle value) {
  return PyBytes_Check(value.ptr()) || PyUnicode_Check(value.ptr());
}

template <typename T>
void Hold(std::shared_ptr<T> memory, const void* values, ExampleColumn* column) {
  column->values = values;
  column->held = std::move(memory);
}

// Takes all of a list's values at once. `values` has the list's own shape.
void TakeWhole(Values values, TypedColumn* typed) {
  const auto kept = std::make_shared<Values>(std::move(values));
  ExampleColumn& column = typed->column;
  typed->dtype = kept->dtype;
  if (kept->kind == 'b') {
    column.type = Type::kView;
    Hold(kept, kept->bytes.data(), &column);
  } else if (kept->kind == 'i') {
    column.type = Type::kInt64;
    Hold(kept, kept->ints.data(), &column);
  } else if (kept->kind == 'f') {
    const bool wide = kept->floats.empty();
    column.type = wide ? Type::kFloat64 : Type::kFloat32;
    Hold(kept, wide ? static_cast<const void*>(kept->doubles.data()) : kept->floats.data(),
         &column);
  } else {
    column.type = Type::kNull;
  }
}

// Takes each row as write() does.
void TakeRows(nb::handle list, RecordTypes* types, std::vector<nb::object>* held,
              TypedColumn* typed) {
  ExampleColumn& column = typed->column;
  const auto rows = std::make_shared<ListedRows>();
  const size_t count = nb::len(list);
  rows->is_set.assign(count / 8 + 1, 0);
  Values values;
  char kind = 0;
  uint64_t row = 0;
  for (nb::handle item : nb::borrow<nb::sequence>(list)) {
    if (!item.is_none()) {
      values.Clear();
      AtRow(column.name, row, [&] { TakeValues(column.name, item, &values, held); });
      types->CheckRow(column.name, row, &values);
      rows->ints.insert(rows->ints.end(), values.ints.begin(), values.ints.end());
      rows->floats.insert(rows->floats.end(), values.floats.begin(), values.floats.end());
      rows->bytes.insert(rows->bytes.end(), values.bytes.begin(), values.bytes.end());
      // An empty list without a type is a record without the feature.
      if (values.kind != 0) {
        kind = values.kind;
        rows->is_set[row / 8] |= static_cast<uint8_t>(1U << row % 8);
      }
    }
    rows->splits.push_back(
        static_cast<int64_t>(rows->ints.size() + rows->floats.size() + rows->bytes.size()));
    ++row;
  }
  typed->checked = true;
  column.type = kind == 'b'   ? Type::kView
                : kind == 'i' ? Type::kInt64
                : kind == 'f' ? Type::kFloat32
                              : Type::kNull;
  column.splits64 = rows->splits.data();
  column.row_is_set = {rows->is_set.data(), 0};
  const void* const first = kind == 'b'   ? static_cast<const void*>(rows->bytes.data())
                            : kind == 'i' ? static_cast<const void*>(rows->ints.data())
                                          : rows->floats.data();
  Hold(rows, first, &column);
}

// Takes a list of rows, or, with splits, of elements. Returns their number.
uint64_t TakeList(nb::handle list, bool elements, RecordTypes* types, std::vector<nb::object>* held,
                  TypedColumn* typed) {
  const std::string& name = typed->column.name;
  const nb::sequence items = nb::borrow<nb::sequence>(list);
  const auto all = [&items](bool (*is)(nb::handle)) {
    return std::all_of(items.begin(), items.end(), is);
  };
  if (all(IsInteger) || all(IsFloat) || all(IsString)) {
    Values values;
    const auto take = [&] { TakeValues(name, list, &values, held); };
    try {
      take();
    } catch (const nb::builtin_exception&) {
      if (!elements) TakeRows(list, types, held, typed);  // names the row
      values.Clear();
      take();
    }
    TakeWhole(std::move(values), typed);
  } else if (elements) {
    RefuseType(name, "the values of a Ragged must be an array, or a list of numbers or of strings");
  } else {
    TakeRows(list, types, held, typed);
  }
  return nb::len(list);
}

uint64_t TakeArray(std::string_view dtype, nb::handle value, std::vector<nb::object>* held,
                   TypedColumn* typed) {
  ExampleColumn& column = typed->column;
  const auto* const type =
      std::ranges::find(kTypes, dtype, [](const auto& one) { return one.first; });
  AnyArray array;
  if (type == std::end(kTypes) || !nb::try_cast(value, array) || array.ndim() == 0) {
    RefuseType(column.name, fmt::format("an array of {}", dtype));
  }
  column.type = type->second;
  column.values = array.data();
  typed->dtype = dtype;
  for (size_t i = 1; i < array.ndim(); ++i) {
    typed->shape.push_back(static_cast<int64_t>(array.shape(i)));
    column.width *= array.shape(i);
  }
  held->push_back(nb::borrow(value));
  return array.shape(0);
}

uint64_t TakeBytes(nb::handle value, std::vector<nb::object>* held, TypedColumn* typed) {
  const BytesArray& bytes = nb::cast<const BytesArray&>(value);
  ExampleColumn& column = typed->column;
  column.type = Type::kView;
  column.values = bytes.data();
  typed->dtype = "bytes";
  for (size_t i = 1; i < bytes.shape().size(); ++i) {
    typed->shape.push_back(bytes.shape()[i]);
    column.width *= static_cast<uint64_t>(bytes.shape()[i]);
  }
  held->push_back(nb::borrow(value));
  return static_cast<uint64_t>(bytes.shape()[0]);
}

// Makes rows of `elements` elements, and returns the number of rows.
uint64_t Split(nb::handle splits, uint64_t elements, std::vector<nb::object>* held,
               TypedColumn* typed) {
  ExampleColumn& column = typed->column;
  const ContiguousBytes bytes(splits);
  const auto* const ends = reinterpret_cast<const int64_t*>(bytes.bytes().data());
  const size_t count = bytes.size() / sizeof(int64_t);
  if (count == 0 || ends[0] != 0) RefuseValue(column.name, "row_splits must begin with 0");
  for (size_t i = 1; i < count; ++i) {
    if (ends[i] < ends[i - 1])
      RefuseValue(column.name, fmt::format("row_splits decrease at {}", i));
  }
  if (static_cast<uint64_t>(ends[count - 1]) != elements) {
    RefuseValue(column.name, fmt::format("row_splits end at {}, and there are {} elements",
                                         ends[count - 1], elements));
  }
  typed->shape.insert(typed->shape.begin(), -1);
  held->push_back(nb::borrow(splits));
  column.splits64 = ends;
  if (column.width != 1) {
    // Splits count elements, and columns of Examples count values.
    struct Memory {
      std::shared_ptr<const void> before;
      std::vector<int64_t> splits;
    };
    const auto memory = std::make_shared<Memory>(Memory{column.held, {ends, ends + count}});
    for (int64_t& end : memory->splits) end *= static_cast<int64_t>(column.width);
    column.splits64 = memory->splits.data();
    column.held = memory;
  }
  return count - 1;
}

}  // namespace

GivenColumn TakeColumn(std::string_view name, std::string_view dtype, nb::object value,
                       nb::handle splits, RecordTypes* types, std::vector<nb::object>* held) {
  GivenColumn given;
  TypedColumn& typed = given.typed;
  typed.column.name = name;
  if (!dtype.empty()) {
    given.rows = TakeArray(dtype, value, held, &typed);
  } else if (nb::isinstance<BytesArray>(value)) {
    given.rows = TakeBytes(value, held, &typed);
  } else {
    if (!PyList_Check(value.ptr())) {
      CheckDtype(name, nb::getattr(value, "dtype", nb::none()));
      value = value.attr("tolist")();
    }
    held->push_back(value);
    given.rows = TakeList(value, !splits.is_none(), types, held, &typed);
  }
  if (!splits.is_none()) given.rows = Split(splits, given.rows, held, &typed);
  return given;
}

std::string_view DtypeOf(Type type) {
  switch (type) {
    case Type::kBool:
      return "bool";
    case Type::kNull:
      return "";
    case Type::kView:
    case Type::kString32:
    case Type::kString64:
    case Type::kFixedBytes:
    case Type::kArrowView:
      return "bytes";
    default:
      // "uint8" follows "bool", which NumPy stores alike.
      return std::ranges::find(std::begin(kTypes) + 1, std::end(kTypes), type,
                               [](const auto& one) { return one.second; })
          ->first;
  }
}

}  // namespace shardfeed::python
