// Functions written in Python as steps of a chain.

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

// The functions are called on threads of the library, which take the GIL for the call. What they
// raise comes out of the iterator. `input`: the columns that they get, by name.

// fn(row dict) gives a sequence with a value for each column of `outputs`: an array in one piece
// and of the column's type, or a list of bytes. `by_place`: it gets a second argument, (the row's
// position in the epoch, and two random numbers of 64 bits that depend on the step's seed, the
// epoch and the position).
MapFn MakePythonMap(const RowSpec& input, const RowSpec& outputs, nanobind::object fn,
                    bool by_place);
// fn(row dict) tells whether the row stays.
FilterFn MakePythonFilter(const RowSpec& input, nanobind::object fn);
// fn(row dict) gives a whole number of 64 bits.
NumberFn MakePythonNumber(const RowSpec& input, nanobind::object fn);
// fn(row dict) gives bytes, the same for rows that belong together.
KeyFn MakePythonKey(const RowSpec& input, nanobind::object fn);
// fn(row dict) gives a sequence of rows, each as MakePythonMap's.
FlatMapFn MakePythonFlatMap(const RowSpec& input, const RowSpec& outputs, nanobind::object fn);
// make() gives a function as MakePythonMap's, which is called for one row after another.
std::function<FlatMapFn()> MakePythonScan(const RowSpec& input, const RowSpec& outputs,
                                          nanobind::object make);
// fn(batch dict) gives (columns as BatchFromPython takes them, a shape or None for each): the shape
// of the column's rows where it differs from batch to batch.
BatchFn MakePythonBatchMap(const RowSpec& outputs, nanobind::object fn, bool writable);
// fn(batch dict) gives an array of uint8, one for each row: whether it stays.
BatchFn MakePythonBatchFilter(nanobind::object fn);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_FUNCTIONS_H_
