// Python bindings of the dataset writer.

#ifndef SHARDFEED_PYTHON_CORE_WRITING_H_
#define SHARDFEED_PYTHON_CORE_WRITING_H_

#include "nanobind/nanobind.h"

namespace shardfeed::python {

void BindWriting(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_WRITING_H_
