// Objects of Python that batches and chains of the library hold.

#ifndef SHARDFEED_PYTHON_CORE_SHARED_OBJECT_H_
#define SHARDFEED_PYTHON_CORE_SHARED_OBJECT_H_

#include <memory>

#include "nanobind/nanobind.h"

namespace shardfeed::python {

// A reference to `object` that any thread may drop, with the GIL or without. The object itself goes
// with the next DropObjects: a thread of the library that waited for the GIL would hold up others.
std::shared_ptr<PyObject> ShareObject(nanobind::object object);

// Lets go of objects whose last reference was dropped. With the GIL.
void DropObjects();

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_SHARED_OBJECT_H_
