// The recipe (pipeline/dataset.h) and records by number, for Python.

#ifndef SHARDFEED_PYTHON_CORE_DATASETS_H_
#define SHARDFEED_PYTHON_CORE_DATASETS_H_

#include "nanobind/nanobind.h"
#include "pipeline/dataset.h"

namespace shardfeed::python {

// {name: value} of the fields of RunOptions, but the allocator.
RunOptions RunOptionsFromPython(nanobind::dict fields);

// Dataset, Iterator and Records. A step that cannot be made raises.
void BindDatasets(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_DATASETS_H_
