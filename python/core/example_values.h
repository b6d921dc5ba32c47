// Values of Python as those of an Example's feature.

#ifndef SHARDFEED_PYTHON_CORE_EXAMPLE_VALUES_H_
#define SHARDFEED_PYTHON_CORE_EXAMPLE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nanobind/nanobind.h"
#include "shardfeed/schema.h"

namespace shardfeed::python {

// The values of a feature, all of one kind. Clear keeps the memory for the next feature.
struct Values {
  std::vector<std::string_view> bytes;
  std::vector<int64_t> ints;
  // Floats are in one of these: `floats` if they were float32, or have become it.
  std::vector<float> floats;
  std::vector<double> doubles;
  // The kind that is set: 'b', 'i' or 'f'; 0 if there are no values and the kind is unknown.
  char kind = 0;
  // What they were, a name of NumPy's: "uint8", "bool", "float64" ...; of Python's own numbers,
  // and of values of several types, what is stored. Empty if there are no values.
  std::string_view dtype;
  // Shape of the array or the nested lists; empty for a single value.
  std::vector<int64_t> shape;
  // How many lists are around each value; -1: no value yet.
  int depth = -1;

  void Clear();
};

// The kind of list that values of a type become, as in Values::kind.
char KindOf(DType dtype);
// "bytes", "floats" or "integers".
std::string_view NameOf(char kind);
// The type in which values of a kind are stored: "bytes", "float32" or "int64".
std::string_view StoredType(char kind);
// The UTF-8 of the name of a feature, valid as long as the object. Raises unless it is a str that
// has one.
std::string_view NameOfFeature(nanobind::handle name);
// Raises a ValueError about a feature: "feature 'x': what".
[[noreturn]] void RefuseValue(std::string_view name, std::string_view what);
// Raises a TypeError about a feature.
[[noreturn]] void RefuseType(std::string_view name, std::string_view what);
// Raises a TypeError that also says which values a feature can have.
[[noreturn]] void Refuse(std::string_view name, std::string_view what);
// Raises what `act` raises about a feature with a row's number after the feature.
void AtRow(std::string_view name, uint64_t row, const std::function<void()>& act);

// The name of a dtype that arrays of NumPy have, as one that stays; empty for others.
std::string_view DtypeName(nanobind::handle dtype);
// Raises a TypeError if no feature has values of a dtype of NumPy, and says what to do.
void CheckDtype(std::string_view name, nanobind::handle dtype);

// Takes what Python gives for a feature: a value of bytes (also bytearray, and memoryview of
// bytes), str, int or float, a scalar of NumPy, an array, or lists of these of one shape. Nothing
// is changed but the precision of floats: what a feature cannot hold is a TypeError, or a
// ValueError if it is out of range. Views in `values` are valid as long as `value` and `held`.
void TakeValues(std::string_view name, nanobind::handle value, Values* values,
                std::vector<nanobind::object>* held);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_EXAMPLE_VALUES_H_
