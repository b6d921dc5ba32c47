// What tasks of a cluster's job do with single shards.

#ifndef SHARDFEED_PYTHON_CORE_TASKS_H_
#define SHARDFEED_PYTHON_CORE_TASKS_H_

#include "nanobind/nanobind.h"

namespace shardfeed::python {

void BindTasks(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_TASKS_H_
