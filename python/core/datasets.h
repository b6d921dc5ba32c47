// Python bindings of Dataset (pipeline/dataset.h) and of records by number.

#ifndef SHARDFEED_PYTHON_CORE_DATASETS_H_
#define SHARDFEED_PYTHON_CORE_DATASETS_H_

#include "nanobind/nanobind.h"
#include "pipeline/dataset.h"

namespace shardfeed::python {

// Converts a dict with the fields of RunOptions, except the allocator.
RunOptions RunOptionsFromPython(nanobind::dict fields);

// Binds Dataset, Iterator and Records. A step with wrong arguments raises.
void BindDatasets(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_DATASETS_H_
