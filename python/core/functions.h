// Python functions as steps of a chain.

#ifndef SHARDFEED_PYTHON_CORE_FUNCTIONS_H_
#define SHARDFEED_PYTHON_CORE_FUNCTIONS_H_

#include <functional>
#include <memory>

#include "nanobind/nanobind.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/row_step.h"
#include "pipeline/stages/flat_map.h"
#include "pipeline/stages/parallel_stage.h"

namespace shardfeed::python {

// The functions are called on threads of the library, which take the GIL for the call. Their
// exceptions are raised by the iterator. `input`: the columns that they receive, by name.

// fn(row dict) returns a sequence with a value for each column of `outputs`: a contiguous array of
// the column's type, or a list of bytes. If `by_place`, fn receives a second argument: (the row's
// position in the epoch, and two random 64-bit numbers that depend on the step's seed, the epoch
// and the position).
MapFn MakePythonMap(const RowSpec& input, const RowSpec& outputs, nanobind::object fn,
                    bool by_place);
// fn(row dict) returns whether to keep the row.
FilterFn MakePythonFilter(const RowSpec& input, nanobind::object fn);
// fn(row dict) returns a 64-bit integer.
NumberFn MakePythonNumber(const RowSpec& input, nanobind::object fn);
// fn(row dict) returns bytes, which are equal for rows that belong together.
KeyFn MakePythonKey(const RowSpec& input, nanobind::object fn);
// fn(row dict) returns a sequence of rows, each as for MakePythonMap.
FlatMapFn MakePythonFlatMap(const RowSpec& input, const RowSpec& outputs, nanobind::object fn);
// make() returns a function as for MakePythonMap, which is called with one row after another.
std::function<FlatMapFn()> MakePythonScan(const RowSpec& input, const RowSpec& outputs,
                                          nanobind::object make);
// fn(batch dict) returns (columns for BatchFromPython, a shape or None for each): the shape of the
// column's rows if it differs from batch to batch.
BatchFn MakePythonBatchMap(const RowSpec& outputs, nanobind::object fn, bool writable);
// fn(batch dict) returns a uint8 array that says for each row whether to keep it.
BatchFn MakePythonBatchFilter(nanobind::object fn);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_FUNCTIONS_H_
