#include "python/core/example_values.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "fmt/format.h"
#include "nanobind/ndarray.h"
#include "nanobind/stl/string.h"
#include "python/core/batches.h"
#include "python/core/number_rule.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// NumPy's arrays have at most 64 dimensions. A list may contain itself.
constexpr int kMaxDepth = 64;

// An integer among floats, which float32 must hold exactly.
double FloatOfInteger(std::string_view name, int64_t value) {
  static const NumberRule rule(DType::kFloat32);
  if (!rule.Fits(value)) RefuseValue(name, rule.Why(value));
  return static_cast<double>(value);
}

std::string_view BytesOf(nb::handle bytes) {
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

// The UTF-8 of a str, as long as the object.
std::string_view TextOf(std::string_view name, nb::handle value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text != nullptr) return {text, static_cast<size_t>(size)};
  PyErr_Clear();
  RefuseValue(
      name,
      "the str has half of a surrogate pair, which UTF-8 does not have; write bytes, "
      "text.encode('utf-8', 'surrogatepass') or 'surrogateescape' for what was a file name");
}

void NoteType(std::string_view dtype, Values* values) {
  if (values->dtype.empty()) {
    values->dtype = dtype;
  } else if (values->dtype != dtype) {
    values->dtype = StoredType(values->kind);
  }
}

[[noreturn]] void RefuseUneven(std::string_view name) {
  RefuseValue(name,
              "lists of different lengths within a list, whose boundaries a record does not keep; "
              "write the values as one list, and the lengths as another feature");
}

// Notes that a value follows, which has `depth` lists around it.
void NoteLeaf(std::string_view name, int depth, Values* values) {
  if (values->depth == depth) return;
  if (values->depth >= 0 || values->shape.size() != static_cast<size_t>(depth)) RefuseUneven(name);
  values->depth = depth;
}

void AddBytes(std::string_view name, std::string_view value, Values* values) {
  if (values->kind != 0 && values->kind != 'b') Refuse(name, "bytes and numbers in one list");
  values->bytes.push_back(value);
  values->kind = 'b';
  values->dtype = "bytes";
}

void AddInteger(std::string_view name, nb::handle value, std::string_view dtype, Values* values) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) {
    // The digits of a huge integer take quadratic time, and Python refuses them.
    const nb::object bits = value.attr("bit_length")();
    const bool is_short = nb::cast<int64_t>(bits) <= 512;
    RefuseValue(
        name,
        fmt::format("{} is out of the range of int64; write it as text, str(x), or as "
                    "a float",
                    is_short ? nb::cast<std::string>(nb::str(value))
                             : fmt::format("an integer of {} bits", nb::cast<int64_t>(bits))));
  }
  if (values->kind == 'b') Refuse(name, "bytes and numbers in one list");
  if (values->kind == 'f') {
    values->doubles.push_back(FloatOfInteger(name, number));
    values->dtype = "float32";
    return;
  }
  values->ints.push_back(number);
  values->kind = 'i';
  NoteType(dtype, values);
}

void AddFloat(std::string_view name, double value, std::string_view dtype, Values* values) {
  if (values->kind == 'b') Refuse(name, "bytes and numbers in one list");
  if (values->kind == 'i') {
    for (const int64_t one : values->ints) values->doubles.push_back(FloatOfInteger(name, one));
    values->ints.clear();
    values->kind = 'f';
    values->dtype = "float32";
  }
  values->doubles.push_back(value);
  values->kind = 'f';
  NoteType(dtype, values);
}

template <typename T, typename To>
void Copy(const AnyArray& array, std::vector<To>* to) {
  const T* data = static_cast<const T*>(array.data());
  to->assign(data, data + array.size());
}

// Takes the array's values. Returns false if features have no counterpart of its type.
bool TakeArray(const AnyArray& array, Values* values) {
  const nb::dlpack::dtype type = array.dtype();
  if (type.lanes != 1) return false;
  const auto integers = [&]<typename T>(T, std::string_view dtype) {
    if (type != nb::dtype<T>()) return false;
    Copy<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>(array, &values->ints);
    values->kind = 'i';
    values->dtype = dtype;
    return true;
  };
  if (type == nb::dtype<float>()) {
    Copy<float>(array, &values->floats);
    values->dtype = "float32";
  } else if (type == nb::dtype<double>()) {
    Copy<double>(array, &values->doubles);
    values->dtype = "float64";
  } else if (!integers(int64_t{}, "int64") && !integers(int32_t{}, "int32") &&
             !integers(uint8_t{}, "uint8") && !integers(bool{}, "bool") &&
             !integers(int16_t{}, "int16") && !integers(int8_t{}, "int8") &&
             !integers(uint16_t{}, "uint16") && !integers(uint32_t{}, "uint32")) {
    return false;
  }
  if (values->kind == 0) values->kind = 'f';
  for (size_t i = 0; i < array.ndim(); ++i) {
    values->shape.push_back(static_cast<int64_t>(array.shape(i)));
  }
  return true;
}

void CheckMask(std::string_view name, nb::handle value) {
  const nb::object mask = nb::getattr(value, "mask", nb::none());
  if (mask.is_none() || !nb::hasattr(mask, "any") || !nb::hasattr(value, "filled")) return;
  if (!nb::cast<bool>(nb::bool_(mask.attr("any")()))) return;
  RefuseType(name,
             "an array with masked values, which lists of a record have no place for; fill them, "
             "x.filled(0), leave them out, x.compressed(), or write None if all are missing");
}

bool IsPlainArray(nb::handle value) {
  static PyObject* const ndarray =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == ndarray;
}

// Takes a bytearray or a memoryview of single bytes, which stand for bytes. Returns false for a
// memoryview of other items.
bool TakeBuffer(std::string_view name, nb::handle value, int depth, Values* values,
                std::vector<nb::object>* held) {
  if (PyMemoryView_Check(value.ptr())) {
    const auto format = nb::cast<std::string>(value.attr("format"));
    if (nb::cast<int>(value.attr("ndim")) != 1 || (format != "B" && format != "c")) return false;
  }
  const nb::object bytes = nb::steal(PyBytes_FromObject(value.ptr()));
  if (!bytes.is_valid()) throw nb::python_error();
  held->push_back(bytes);
  NoteLeaf(name, depth, values);
  AddBytes(name, BytesOf(bytes), values);
  return true;
}

void TakeAny(std::string_view name, nb::handle value, int depth, Values* values,
             std::vector<nb::object>* held);

void TakeList(std::string_view name, nb::handle list, int depth, Values* values,
              std::vector<nb::object>* held) {
  if (depth >= kMaxDepth) Refuse(name, fmt::format("more than {} lists in lists", kMaxDepth));
  const auto size = static_cast<int64_t>(PySequence_Size(list.ptr()));
  if (values->shape.size() == static_cast<size_t>(depth) && values->depth < 0) {
    values->shape.push_back(size);
  } else if (values->shape.size() <= static_cast<size_t>(depth) ||
             values->shape[static_cast<size_t>(depth)] != size) {
    RefuseUneven(name);
  }
  for (nb::handle item : nb::borrow<nb::sequence>(list)) {
    TakeAny(name, item, depth + 1, values, held);
  }
}

void TakeAny(std::string_view name, nb::handle value, int depth, Values* values,
             std::vector<nb::object>* held) {
  PyObject* const object = value.ptr();
  if (PyLong_Check(object)) {
    NoteLeaf(name, depth, values);
    return AddInteger(name, value, PyBool_Check(object) ? "bool" : "int64", values);
  }
  if (PyFloat_Check(object)) {
    NoteLeaf(name, depth, values);
    // NumPy's float64 is a float of Python as well, and its type is kept as those of its others.
    const bool is_numpy = !PyFloat_CheckExact(object) && nb::hasattr(value, "dtype");
    return AddFloat(name, PyFloat_AsDouble(object), is_numpy ? "float64" : "float32", values);
  }
  if (PyBytes_Check(object)) {
    NoteLeaf(name, depth, values);
    return AddBytes(name, BytesOf(value), values);
  }
  if (PyUnicode_Check(object)) {
    NoteLeaf(name, depth, values);
    return AddBytes(name, TextOf(name, value), values);
  }
  if (PyList_Check(object) || PyTuple_Check(object)) {
    return TakeList(name, value, depth, values, held);
  }
  if (value.is_none()) {
    Refuse(name, "None in a list, which has no place for missing values");
  }
  if ((PyByteArray_Check(object) || PyMemoryView_Check(object)) &&
      TakeBuffer(name, value, depth, values, held)) {
    return;
  }
  if (nb::isinstance<BytesArray>(value)) {
    held->push_back(nb::cast<const BytesArray&>(value).ToList());
    return TakeList(name, held->back(), depth, values, held);
  }
  if (!IsPlainArray(value)) CheckMask(name, value);
  // NumPy's scalars have no length; dates among them offer a buffer without a format.
  const bool has_length = nb::hasattr(value, "__len__");
  AnyArray array;
  if (depth == 0 && has_length && nb::try_cast(value, array) && array.is_valid() &&
      TakeArray(array, values)) {
    return;
  }
  const nb::object dtype = nb::getattr(value, "dtype", nb::none());
  CheckDtype(name, dtype);
  const char* const as_python = has_length ? "tolist" : "item";
  if (nb::hasattr(value, as_python)) {
    const std::string_view noted = DtypeName(dtype);
    held->push_back(value.attr(as_python)());
    const nb::handle found = held->back();
    if (PyLong_Check(found.ptr())) {
      NoteLeaf(name, depth, values);
      return AddInteger(name, found, noted.empty() ? "int64" : noted, values);
    }
    if (PyFloat_Check(found.ptr())) {
      NoteLeaf(name, depth, values);
      return AddFloat(name, PyFloat_AsDouble(found.ptr()), noted.empty() ? "float32" : noted,
                      values);
    }
    if (PyList_Check(found.ptr())) {
      TakeList(name, found, depth, values, held);
      if (depth == 0 && !noted.empty() && values->kind != 0) values->dtype = noted;
      return;
    }
    if (has_length && (PyBytes_Check(found.ptr()) || PyUnicode_Check(found.ptr()))) {
      return TakeAny(name, found, depth, values, held);  // an array without dimensions
    }
  }
  Refuse(name, fmt::format("a value of type {}",
                           nb::cast<std::string>(nb::str(value.type().attr("__name__")))));
}

}  // namespace

void Values::Clear() {
  bytes.clear();
  ints.clear();
  floats.clear();
  doubles.clear();
  kind = 0;
  dtype = {};
  shape.clear();
  depth = -1;
}

char KindOf(DType dtype) {
  switch (dtype) {
    case DType::kBytes:
      return 'b';
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return 'f';
    default:
      return 'i';
  }
}

std::string_view NameOf(char kind) {
  return kind == 'b' ? "bytes" : kind == 'f' ? "floats" : "integers";
}

std::string_view StoredType(char kind) {
  return kind == 'b' ? "bytes" : kind == 'f' ? "float32" : "int64";
}

std::string_view NameOfFeature(nb::handle name) {
  Py_ssize_t size = 0;
  const char* text =
      PyUnicode_Check(name.ptr()) ? PyUnicode_AsUTF8AndSize(name.ptr(), &size) : nullptr;
  if (text != nullptr) return {text, static_cast<size_t>(size)};
  PyErr_Clear();
  const nb::object shown = nb::steal(PyObject_ASCII(name.ptr()));
  if (!shown.is_valid()) throw nb::python_error();
  const std::string message = fmt::format("the name of a feature is a str of valid Unicode, not {}",
                                          nb::cast<std::string>(shown));
  if (PyUnicode_Check(name.ptr())) throw nb::value_error(message.c_str());
  throw nb::type_error(message.c_str());
}

void CheckDtype(std::string_view name, nb::handle dtype) {
  const nb::object kind = nb::getattr(dtype, "kind", nb::none());
  if (!nb::isinstance<nb::str>(kind)) return;
  switch (nb::cast<std::string>(kind)[0]) {
    case 'V':
      // Types that others add to NumPy, such as bfloat16, have no fields.
      if (nb::getattr(dtype, "names", nb::none()).is_none()) return;
      RefuseType(name,
                 "an array of structures; write each field as a feature of its own, x['field']");
    case 'c':
      RefuseType(name, "complex numbers; write x.real and x.imag as two features");
    case 'M':
    case 'm':
      RefuseType(name,
                 "dates or times; choose a unit and write integers, "
                 "x.astype('datetime64[us]').astype('int64'), or write text");
    default:
      if (nb::cast<std::string>(kind) == "f" &&
          nb::cast<int64_t>(nb::getattr(dtype, "itemsize", nb::int_(0))) > 8) {
        RefuseType(name, "floats of more than 64 bits; write x.astype('float64')");
      }
  }
}

std::string_view DtypeName(nb::handle dtype) {
  static constexpr std::string_view kNames[] = {"bool",    "uint8",    "int8",    "uint16",
                                                "int16",   "uint32",   "int32",   "int64",
                                                "float16", "bfloat16", "float32", "float64"};
  const auto name = nb::cast<std::string>(nb::str(nb::getattr(dtype, "name", nb::str(""))));
  const auto* const found = std::ranges::find(kNames, name);
  return found == std::end(kNames) ? std::string_view() : *found;
}

void RefuseValue(std::string_view name, std::string_view what) {
  throw nb::value_error(fmt::format("feature '{}': {}", name, what).c_str());
}

void RefuseType(std::string_view name, std::string_view what) {
  throw nb::type_error(fmt::format("feature '{}': {}", name, what).c_str());
}

void Refuse(std::string_view name, std::string_view what) {
  RefuseType(name, fmt::format("{}; expected bytes, str, int, float, a list of one of these, or an "
                               "array of numbers",
                               what));
}

void AtRow(std::string_view name, uint64_t row, const std::function<void()>& act) {
  try {
    act();
  } catch (const nb::builtin_exception& error) {
    const std::string feature = fmt::format("feature '{}': ", name);
    const std::string_view what = error.what();
    if (!what.starts_with(feature)) throw;
    throw nb::builtin_exception(
        error.type(),
        fmt::format("{}row {}: {}", feature, row, what.substr(feature.size())).c_str());
  }
}

void TakeValues(std::string_view name, nb::handle value, Values* values,
                std::vector<nb::object>* held) {
  TakeAny(name, value, 0, values, held);
}

}  // namespace shardfeed::python
