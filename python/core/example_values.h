// Values of Python as those of an Example's feature.

#ifndef SHARDFEED_PYTHON_CORE_EXAMPLE_VALUES_H_
#define SHARDFEED_PYTHON_CORE_EXAMPLE_VALUES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "nanobind/nanobind.h"
#include "nanobind/ndarray.h"
#include "shardfeed/schema.h"

namespace shardfeed::python {

using AnyArray = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

// The values of a feature.
struct Values {
  std::vector<std::string_view> bytes;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  // The kind that is set: 'b', 'i' or 'f'; 0 if there are no values and the kind is unknown.
  char kind = 0;
};

// The kind of list that values of a type become, as in Values::kind.
char KindOf(DType dtype);
// "bytes", "floats" or "integers".
std::string_view NameOf(char kind);
// The bytes of a bytes object, or the UTF-8 of a str. Valid as long as the object.
std::string_view StringOf(nanobind::handle value);
// Raises a TypeError that names the feature and says which values a feature can have.
[[noreturn]] void Refuse(std::string_view name, std::string_view what);

// Converts integers to floats. Raises ValueError if float32 cannot hold one.
void ToFloats(std::string_view name, Values* values);
// Takes the values of an array. Returns false if features have no counterpart of its type.
bool AddArray(std::string_view name, const AnyArray& array, Values* values);
// Adds a bytes, str, int or float object, or a scalar of NumPy. Raises TypeError for others, and
// ValueError for a number out of range.
void AddValue(std::string_view name, nanobind::handle value, Values* values);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_EXAMPLE_VALUES_H_
