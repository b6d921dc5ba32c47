// Columns that Python gives for records: arrays, strings, lists of rows, and rows of any length.

#ifndef SHARDFEED_PYTHON_CORE_COLUMN_VALUES_H_
#define SHARDFEED_PYTHON_CORE_COLUMN_VALUES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nanobind/nanobind.h"
#include "python/core/record_types.h"

namespace shardfeed::python {

struct GivenColumn {
  TypedColumn typed;
  uint64_t rows = 0;
};

// Takes a column. `dtype`: the type of NumPy of a contiguous array of numbers, whose elements are
// in the machine's order (bfloat16 as uint16); empty for other values: a BytesArray, a list of
// rows, each as write() takes it, or an array that is made such a list. `splits`: an array of
// int64, of which row r has the elements [splits[r], splits[r + 1]); None if each row has one. The
// rows of lists are checked by `types`. What the column points to is in `held`, which the caller
// releases with the GIL.
GivenColumn TakeColumn(std::string_view name, std::string_view dtype, nanobind::object value,
                       nanobind::handle splits, RecordTypes* types,
                       std::vector<nanobind::object>* held);

// NumPy's name of the type of a column's values; "bytes" for strings, empty for kNull.
std::string_view DtypeOf(ExampleColumn::Type type);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_COLUMN_VALUES_H_
