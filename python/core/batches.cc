#include "python/core/batches.h"

#include <cstring>
#include <string>
#include <utility>

#include "decode/features/float16.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nanobind/ndarray.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/string_view.h"
#include "nanobind/stl/vector.h"
#include "python/core/gil.h"
#include "python/core/shared_object.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

constexpr DType kAllTypes[] = {
    DType::kUInt8,   DType::kInt8,    DType::kUInt16,  DType::kInt16,
    DType::kInt32,   DType::kInt64,   DType::kFloat16, DType::kBFloat16,
    DType::kFloat32, DType::kFloat64, DType::kBytes,
};

nb::dlpack::dtype NumpyType(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto type = [dtype](Code code) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * DTypeSize(dtype)),
                             1};
  };
  switch (dtype) {
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kBFloat16:  // as its bits; NumPy has no such type
      return type(Code::UInt);
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return type(Code::Float);
    default:
      return type(Code::Int);
  }
}

nb::object MakeArray(const void* data, DType dtype, const std::vector<size_t>& shape,
                     nb::handle owner, bool writable) {
  if (writable) {
    return nb::cast(nb::ndarray<nb::numpy>(const_cast<void*>(data), shape.size(), shape.data(),
                                           owner, nullptr, NumpyType(dtype)));
  }
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(data, shape.size(), shape.data(), owner, nullptr,
                                                 NumpyType(dtype)));
}

nb::object MakeCapsule(std::shared_ptr<const void> owner) {
  auto* held = new std::shared_ptr<const void>(std::move(owner));
  return nb::capsule(held,
                     [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
}

nb::object MakeBytes(std::string_view bytes) { return nb::bytes(bytes.data(), bytes.size()); }

}  // namespace

nb::object RaggedToPython(nb::object values, nb::object splits) {
  // Imported once.
  static PyObject* type = nb::module_::import_("shardfeed.ragged").attr("Ragged").inc_ref().ptr();
  return nb::borrow(type)(values, splits);
}

namespace {

nb::object ColumnToPython(const std::shared_ptr<const Batch>& batch, nb::handle owner,
                          size_t column, bool writable) {
  const ColumnSpec& spec = (*batch->spec)[column];
  const Column& c = batch->columns[column];
  size_t rows = batch->rows;
  const char* data = c.data;
  nb::object splits;
  if (spec.ragged) {
    const int64_t first = c.splits[0];
    data += first * spec.bytes();
    rows = c.splits[batch->rows] - first;
    if (first == 0) {
      splits = MakeArray(c.splits, DType::kInt64, {batch->rows + 1}, owner, writable);
    } else {
      auto moved = std::make_shared<std::vector<int64_t>>(c.splits, c.splits + batch->rows + 1);
      for (int64_t& split : *moved) split -= first;
      const int64_t* numbers = moved->data();
      splits =
          MakeArray(numbers, DType::kInt64, {batch->rows + 1}, MakeCapsule(std::move(moved)), true);
    }
  }
  nb::object values;
  if (spec.dtype == DType::kBytes) {
    std::vector<int64_t> shape = {static_cast<int64_t>(rows)};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    values = nb::cast(
        BytesArray(batch, reinterpret_cast<const std::string_view*>(data), std::move(shape)));
  } else {
    std::vector<size_t> shape = {rows};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    values = MakeArray(data, spec.dtype, shape, owner, writable);
  }
  return spec.ragged ? RaggedToPython(values, splits) : values;
}

// Returns a Python number, or null for bfloat16, whose bits need an array that says what they are.
nb::object MakeNumber(DType dtype, const char* data) {
  switch (dtype) {
    case DType::kUInt8:
      return nb::int_(*reinterpret_cast<const uint8_t*>(data));
    case DType::kInt8:
      return nb::int_(*reinterpret_cast<const int8_t*>(data));
    case DType::kUInt16:
      return nb::int_(*reinterpret_cast<const uint16_t*>(data));
    case DType::kInt16:
      return nb::int_(*reinterpret_cast<const int16_t*>(data));
    case DType::kInt32:
      return nb::int_(*reinterpret_cast<const int32_t*>(data));
    case DType::kInt64:
      return nb::int_(*reinterpret_cast<const int64_t*>(data));
    case DType::kFloat16:
      return nb::float_(FromFloat16(*reinterpret_cast<const uint16_t*>(data)));
    case DType::kFloat32:
      return nb::float_(*reinterpret_cast<const float*>(data));
    case DType::kFloat64:
      return nb::float_(*reinterpret_cast<const double*>(data));
    default:
      return nb::object();
  }
}

[[noreturn]] void ThrowValue(const std::string& message) { throw nb::value_error(message.c_str()); }

// Appends views of the strings to `out`. `batch` keeps the strings alive.
void AppendStrings(nb::handle values, std::string_view column, std::vector<std::string_view>* out,
                   Batch* batch) {
  if (nb::isinstance<BytesArray>(values)) {
    const BytesArray& array = nb::cast<const BytesArray&>(values);
    out->insert(out->end(), array.data(), array.data() + array.size());
    batch->memory.push_back(ShareObject(nb::borrow(values)));
    return;
  }
  for (nb::handle value : nb::borrow<nb::sequence>(values)) {
    if (!PyBytes_Check(value.ptr())) {
      ThrowValue(fmt::format("column '{}': expected bytes, got {}", column,
                             nb::cast<std::string>(nb::str(value.type()))));
    }
    const nb::bytes bytes = nb::borrow<nb::bytes>(value);
    out->push_back({bytes.c_str(), bytes.size()});
  }
  batch->memory.push_back(ShareObject(nb::borrow(values)));
}

}  // namespace

// ---- BytesArray

size_t BytesArray::row_values() const {
  size_t n = 1;
  for (size_t i = 1; i < shape_.size(); ++i) n *= shape_[i];
  return n;
}

size_t BytesArray::size() const { return shape_[0] * row_values(); }

uint64_t BytesArray::num_bytes() const {
  uint64_t n = 0;
  for (size_t i = 0; i < size(); ++i) n += data_[i].size();
  return n;
}

int64_t BytesArray::Row(int64_t index) const {
  const int64_t row = index < 0 ? index + shape_[0] : index;
  if (row < 0 || row >= shape_[0]) {
    throw nb::index_error(fmt::format("index {} of {} rows", index, shape_[0]).c_str());
  }
  return row;
}

nb::object BytesArray::Get(int64_t index) const {
  const int64_t row = Row(index);
  if (shape_.size() == 1) return MakeBytes(data_[row]);
  return nb::cast(
      BytesArray(owner_, data_ + row * row_values(), {shape_.begin() + 1, shape_.end()}));
}

BytesArray BytesArray::Slice(nb::slice slice) const {
  const auto [start, stop, step, length] = slice.compute(shape_[0]);
  std::vector<int64_t> shape = shape_;
  shape[0] = static_cast<int64_t>(length);
  const size_t values = row_values();
  if (step == 1) return {owner_, data_ + start * values, std::move(shape)};
  // Views of the strings in another order, which keep the memory of the original.
  auto views =
      std::make_shared<std::pair<std::shared_ptr<const void>, std::vector<std::string_view>>>();
  views->first = owner_;
  for (size_t i = 0; i < length; ++i) {
    const std::string_view* row =
        data_ + (start + static_cast<int64_t>(i) * step) * static_cast<int64_t>(values);
    views->second.insert(views->second.end(), row, row + values);
  }
  const std::string_view* data = views->second.data();
  return {std::move(views), data, std::move(shape)};
}

nb::list BytesArray::ToList() const {
  nb::list list;
  for (int64_t i = 0; i < shape_[0]; ++i) {
    list.append(shape_.size() == 1 ? MakeBytes(data_[i])
                                   : nb::object(BytesArray(owner_, data_ + i * row_values(),
                                                           {shape_.begin() + 1, shape_.end()})
                                                    .ToList()));
  }
  return list;
}

nb::object BytesArray::View(int64_t index) const {
  const int64_t n = static_cast<int64_t>(size());
  const int64_t i = index < 0 ? index + n : index;
  if (i < 0 || i >= n) throw nb::index_error(fmt::format("index {} of {}", index, n).c_str());
  return MakeArray(data_[i].data(), DType::kUInt8, {data_[i].size()}, MakeCapsule(owner_), false);
}

nb::tuple BytesArray::Joined() const {
  struct Memory {
    std::unique_ptr<char[]> bytes;
    std::vector<int64_t> offsets;
  };
  auto memory = std::make_shared<Memory>();
  const size_t n = size();
  memory->offsets.resize(n + 1);
  {
    const GilRelease release;
    int64_t at = 0;
    for (size_t i = 0; i < n; ++i) {
      memory->offsets[i] = at;
      at += static_cast<int64_t>(data_[i].size());
    }
    memory->offsets[n] = at;
    memory->bytes.reset(new char[at + 1]);
    for (size_t i = 0; i < n; ++i) {
      if (data_[i].empty()) continue;
      std::memcpy(memory->bytes.get() + memory->offsets[i], data_[i].data(), data_[i].size());
    }
  }
  const Memory& m = *memory;
  const nb::object owner = MakeCapsule(std::move(memory));
  return nb::make_tuple(
      MakeArray(m.bytes.get(), DType::kUInt8, {static_cast<size_t>(m.offsets[n])}, owner, true),
      MakeArray(m.offsets.data(), DType::kInt64, {n + 1}, owner, true));
}

BytesArray BytesArray::Split(nb::object joined, nb::handle offsets, std::vector<int64_t> shape) {
  const ContiguousBytes bytes(joined);
  const ContiguousBytes bounds(offsets);
  const auto* at = reinterpret_cast<const int64_t*>(bounds.bytes().data());
  const size_t n = bounds.size() / sizeof(int64_t);
  bool good =
      n > 0 && !shape.empty() && at[0] >= 0 && at[n - 1] <= static_cast<int64_t>(bytes.size());
  for (size_t i = 1; good && i < n; ++i) good = at[i - 1] <= at[i];
  uint64_t size = 1;
  for (int64_t s : shape) {
    good = good && s >= 0 && !__builtin_mul_overflow(size, static_cast<uint64_t>(s), &size);
  }
  if (!good || size != n - 1) ThrowValue("these are not the offsets of an array of bytes");
  auto views =
      std::make_shared<std::pair<std::shared_ptr<PyObject>, std::vector<std::string_view>>>();
  views->second.reserve(n - 1);
  for (size_t i = 1; i < n; ++i) {
    views->second.push_back(bytes.bytes().substr(at[i - 1], at[i] - at[i - 1]));
  }
  views->first = ShareObject(std::move(joined));
  const std::string_view* data = views->second.data();
  return {std::move(views), data, std::move(shape)};
}

// ---- To Python

nb::object ValueToPython(const ColumnSpec& spec, const char* data, int64_t elements,
                         nb::handle owner, bool writable) {
  if (spec.dtype == DType::kBytes) {
    const auto* strings = reinterpret_cast<const std::string_view*>(data);
    if (!spec.ragged && spec.shape.empty()) return MakeBytes(strings[0]);
    const size_t n = spec.num_values() * (spec.ragged ? elements : 1);
    nb::list list;
    for (size_t i = 0; i < n; ++i) list.append(MakeBytes(strings[i]));
    return list;
  }
  std::vector<size_t> shape(spec.shape.begin(), spec.shape.end());
  if (spec.ragged) {
    shape.insert(shape.begin(), elements);
  } else if (shape.empty()) {
    if (nb::object number = MakeNumber(spec.dtype, data); number.is_valid()) return number;
  }
  if (owner.is_valid()) return MakeArray(data, spec.dtype, shape, owner, writable);
  const size_t bytes = spec.bytes() * (spec.ragged ? elements : 1);
  char* copy = new char[bytes + 1];
  if (bytes > 0) std::memcpy(copy, data, bytes);
  return MakeArray(copy, spec.dtype, shape,
                   nb::capsule(copy, [](void* p) noexcept { delete[] static_cast<char*>(p); }),
                   true);
}

nb::object BatchToPython(Batch batch, bool bare, bool writable) {
  const auto shared = std::make_shared<const Batch>(std::move(batch));
  const nb::object owner = MakeCapsule(shared);
  if (bare) return ColumnToPython(shared, owner, 0, writable);
  nb::dict columns;
  for (size_t c = 0; c < shared->columns.size(); ++c) {
    const std::string& name = (*shared->spec)[c].name;
    columns[nb::str(name.data(), name.size())] = ColumnToPython(shared, owner, c, writable);
  }
  return columns;
}

RowViews::RowViews(std::shared_ptr<const Batch> batch, bool bare, bool writable)
    : batch_(std::move(batch)), bare_(bare), writable_(writable), owner_(MakeCapsule(batch_)) {
  for (const ColumnSpec& spec : *batch_->spec) {
    names_.push_back(nb::str(spec.name.data(), spec.name.size()));
  }
}

nb::object RowViews::Row(size_t row) const {
  nb::dict columns;
  for (size_t c = 0; c < names_.size(); ++c) {
    const ColumnSpec& spec = (*batch_->spec)[c];
    const Column& column = batch_->columns[c];
    const int64_t begin = spec.ragged ? column.splits[row] : static_cast<int64_t>(row);
    const int64_t elements = spec.ragged ? column.splits[row + 1] - begin : 1;
    nb::object value = ValueToPython(spec, column.data + begin * static_cast<int64_t>(spec.bytes()),
                                     elements, owner_, writable_);
    if (bare_) return value;
    columns[names_[c]] = std::move(value);
  }
  return columns;
}

// ---- From Python

ContiguousBytes::ContiguousBytes(nb::handle object) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) nb::raise_python_error();
}

ContiguousBytes::~ContiguousBytes() { PyBuffer_Release(&view_); }

Batch BatchFromPython(std::shared_ptr<const RowSpec> spec, nb::sequence columns) {
  Batch batch;
  batch.batched = true;
  batch.spec = std::move(spec);
  if (nb::len(columns) != batch.spec->size())
    ThrowValue("the number of columns differs from the declared one");
  bool first = true;
  for (size_t c = 0; c < batch.spec->size(); ++c) {
    const ColumnSpec& s = (*batch.spec)[c];
    const nb::object value = columns[c];
    Column column;
    nb::object elements = value;
    size_t rows = 0;
    if (s.ragged) {
      const nb::sequence parts = nb::borrow<nb::sequence>(value);
      elements = parts[0];
      const nb::object row_splits = parts[1];
      const ContiguousBytes splits(row_splits);
      column.splits = reinterpret_cast<const int64_t*>(splits.bytes().data());
      const size_t n = splits.size() / sizeof(int64_t);
      if (n == 0 || column.splits[0] != 0) {
        ThrowValue(fmt::format("column '{}': row splits must begin with 0", s.name));
      }
      for (size_t i = 1; i < n; ++i) {
        if (column.splits[i] < column.splits[i - 1]) {
          ThrowValue(fmt::format("column '{}': row splits must not decrease", s.name));
        }
      }
      rows = n - 1;
      batch.memory.push_back(ShareObject(row_splits));
    }
    size_t num_elements = 0;
    size_t rest = 0;
    if (s.num_values() == 0) {
      ThrowValue(fmt::format("column '{}': a row has no values", s.name));
    }
    if (s.dtype == DType::kBytes) {
      auto strings = std::make_shared<std::vector<std::string_view>>();
      AppendStrings(elements, s.name, strings.get(), &batch);
      num_elements = strings->size() / s.num_values();
      rest = strings->size() % s.num_values();
      column.data = reinterpret_cast<char*>(strings->data());
      batch.memory.push_back(std::move(strings));
    } else {
      const ContiguousBytes bytes(elements);
      num_elements = bytes.size() / s.bytes();
      rest = bytes.size() % s.bytes();
      column.data = const_cast<char*>(bytes.bytes().data());
      batch.memory.push_back(ShareObject(elements));
    }
    if (!s.ragged) rows = num_elements;
    if (rest != 0 || (s.ragged && column.splits[rows] > static_cast<int64_t>(num_elements))) {
      ThrowValue(fmt::format("column '{}': its size does not match {} rows", s.name, rows));
    }
    if (!first && rows != batch.rows) {
      ThrowValue(fmt::format("column '{}' has {} rows, but the preceding columns have {}", s.name,
                             rows, batch.rows));
    }
    first = false;
    batch.rows = rows;
    batch.columns.push_back(column);
  }
  return batch;
}

nb::list SpecToPython(const RowSpec& spec) {
  nb::list list;
  for (const ColumnSpec& s : spec) {
    nb::list shape;
    for (int64_t size : s.shape) shape.append(size);
    list.append(nb::make_tuple(s.name, DTypeName(s.dtype), nb::tuple(shape), s.ragged));
  }
  return list;
}

DType DTypeFromName(std::string_view name) {
  for (DType dtype : kAllTypes) {
    if (DTypeName(dtype) == name) return dtype;
  }
  ThrowValue(fmt::format("type '{}' does not exist", name));
}

RowSpec SpecFromPython(nb::sequence columns) {
  RowSpec spec;
  for (nb::handle column : columns) {
    const nb::tuple t = nb::borrow<nb::tuple>(column);
    spec.push_back({nb::cast<std::string>(t[0]), DTypeFromName(nb::cast<std::string>(t[1])),
                    nb::cast<std::vector<int64_t>>(t[2]), nb::cast<bool>(t[3])});
  }
  return spec;
}

void BindBatches(nb::module_& m) {
  nb::class_<BytesArray>(m, "BytesArray",
                         "A column of bytes: a sequence of bytes objects, which are created on "
                         "access. numpy.asarray returns an array of objects.")
      .def("__len__", [](const BytesArray& a) { return a.shape()[0]; })
      .def("__getitem__", &BytesArray::Get)
      .def("__getitem__", &BytesArray::Slice)
      .def_prop_ro("shape", [](const BytesArray& a) { return nb::tuple(nb::cast(a.shape())); })
      .def_prop_ro("nbytes", &BytesArray::num_bytes, "The total size of the strings in bytes.")
      .def("tolist", &BytesArray::ToList)
      .def("__getstate__",
           [](const BytesArray& a) {
             nb::list strings;
             for (size_t i = 0; i < a.size(); ++i) strings.append(MakeBytes(a.data()[i]));
             return nb::make_tuple(strings, a.shape());
           })
      .def("__setstate__",
           [](BytesArray& a, nb::tuple state) {
             auto strings = std::make_shared<std::vector<std::string>>();
             auto views =
                 std::make_shared<std::pair<decltype(strings), std::vector<std::string_view>>>();
             for (nb::handle item : nb::borrow<nb::sequence>(state[0])) {
               const nb::bytes bytes = nb::cast<nb::bytes>(item);
               strings->emplace_back(bytes.c_str(), bytes.size());
             }
             views->second.assign(strings->begin(), strings->end());
             views->first = std::move(strings);
             auto shape = nb::cast<std::vector<int64_t>>(state[1]);
             size_t size = shape.empty() ? 0 : 1;
             for (int64_t n : shape) size *= static_cast<size_t>(n);
             if (shape.empty() || size != views->second.size())
               ThrowValue("not the state of a BytesArray");
             const std::string_view* data = views->second.data();
             new (&a) BytesArray(std::move(views), data, std::move(shape));
           })
      .def("__repr__",
           [](const BytesArray& a) {
             return fmt::format("BytesArray([{}], {} bytes)", fmt::join(a.shape(), ", "),
                                a.num_bytes());
           })
      .def("view", &BytesArray::View, nb::arg("index"),
           "Returns string `index` of all strings as a read-only uint8 array without a copy.")
      .def("joined", &BytesArray::Joined,
           "Returns a copy of all strings end to end: (uint8 array, int64 offsets and the end).")
      .def_static("split", &BytesArray::Split, nb::arg("joined"), nb::arg("offsets"),
                  nb::arg("shape"), "The reverse of joined, without a copy.");
}

}  // namespace shardfeed::python
