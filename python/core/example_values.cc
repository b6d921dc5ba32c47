#include "python/core/example_values.h"

#include <cmath>
#include <cstring>
#include <string>

#include "fmt/format.h"
#include "nanobind/stl/string.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// Rounds a number to float32, the precision of features. A finite number that would become infinite
// is an error.
float FloatOf(std::string_view name, double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isinf(rounded) && !std::isinf(value)) {
    throw nb::value_error(
        fmt::format("feature '{}': {} is out of the range of float32", name, value).c_str());
  }
  return rounded;
}

// Converts an integer among floats, which float32 must hold exactly.
float FloatOfInteger(std::string_view name, int64_t value) {
  const auto rounded = static_cast<float>(value);
  // 2^63 is a float, but not an int64.
  if (rounded >= 0x1p63F || static_cast<int64_t>(rounded) != value) {
    throw nb::value_error(fmt::format("feature '{}': float32 cannot hold the integer {}; give a "
                                      "float if it may be rounded",
                                      name, value)
                              .c_str());
  }
  return rounded;
}

template <typename T, typename To>
void Copy(const AnyArray& array, std::vector<To>* to) {
  const T* data = static_cast<const T*>(array.data());
  to->assign(data, data + array.size());
}

}  // namespace

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

std::string_view StringOf(nb::handle value) {
  if (PyBytes_Check(value.ptr())) {
    const nb::bytes bytes = nb::borrow<nb::bytes>(value);
    return {bytes.c_str(), bytes.size()};
  }
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

[[noreturn]] void Refuse(std::string_view name, std::string_view what) {
  throw nb::type_error(
      fmt::format(
          "feature '{}': {}; expected bytes, str, int, float, a list of one of these, or an "
          "array of numbers",
          name, what)
          .c_str());
}

void ToFloats(std::string_view name, Values* values) {
  values->floats.reserve(values->ints.size());
  for (const int64_t value : values->ints) values->floats.push_back(FloatOfInteger(name, value));
  values->ints.clear();
}

// Adds the array's values. Returns false if features cannot hold the array's type.
bool AddArray(std::string_view name, const AnyArray& array, Values* values) {
  const nb::dlpack::dtype type = array.dtype();
  if (type.lanes != 1) return false;
  values->kind = 'i';
  if (type == nb::dtype<int64_t>()) return Copy<int64_t>(array, &values->ints), true;
  if (type == nb::dtype<int32_t>()) return Copy<int32_t>(array, &values->ints), true;
  if (type == nb::dtype<int16_t>()) return Copy<int16_t>(array, &values->ints), true;
  if (type == nb::dtype<int8_t>()) return Copy<int8_t>(array, &values->ints), true;
  if (type == nb::dtype<uint8_t>()) return Copy<uint8_t>(array, &values->ints), true;
  if (type == nb::dtype<uint16_t>()) return Copy<uint16_t>(array, &values->ints), true;
  if (type == nb::dtype<uint32_t>()) return Copy<uint32_t>(array, &values->ints), true;
  if (type == nb::dtype<bool>()) return Copy<uint8_t>(array, &values->ints), true;
  values->kind = 'f';
  if (type == nb::dtype<float>()) return Copy<float>(array, &values->floats), true;
  if (type == nb::dtype<double>()) {
    const auto* data = static_cast<const double*>(array.data());
    values->floats.reserve(array.size());
    for (size_t i = 0; i < array.size(); ++i) values->floats.push_back(FloatOf(name, data[i]));
    return true;
  }
  return false;
}

void AddValue(std::string_view name, nb::handle value, Values* values) {
  char kind = 'i';
  if (PyBytes_Check(value.ptr()) || PyUnicode_Check(value.ptr())) {
    values->bytes.push_back(StringOf(value));
    kind = 'b';
  } else if (PyLong_Check(value.ptr())) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow != 0) {
      throw nb::value_error(fmt::format("feature '{}': {} is out of the range of int64", name,
                                        nb::cast<std::string>(nb::str(value)))
                                .c_str());
    }
    values->ints.push_back(number);
  } else if (PyFloat_Check(value.ptr())) {
    values->floats.push_back(FloatOf(name, PyFloat_AsDouble(value.ptr())));
    kind = 'f';
  } else if (nb::hasattr(value, "item")) {  // a NumPy scalar
    const nb::object item = value.attr("item")();
    if (!PyLong_Check(item.ptr()) && !PyFloat_Check(item.ptr()))
      Refuse(name, "an unsupported scalar");
    return AddValue(name, item, values);
  } else {
    Refuse(name, fmt::format("a value of type {}",
                             nb::cast<std::string>(nb::str(value.type().attr("__name__")))));
  }
  if (values->kind == 'f' && kind == 'i') {
    ToFloats(name, values);
    return;
  }
  if (values->kind == 'i' && kind == 'f' && !values->ints.empty()) {
    const float last = values->floats.back();
    values->floats.clear();
    ToFloats(name, values);
    values->floats.push_back(last);
  } else if (values->kind != 0 && values->kind != kind) {
    Refuse(name, "bytes and numbers in one list");
  }
  values->kind = kind;
}

}  // namespace shardfeed::python
