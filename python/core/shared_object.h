// Python objects that batches and chains of the library hold.

#ifndef SHARDFEED_PYTHON_CORE_SHARED_OBJECT_H_
#define SHARDFEED_PYTHON_CORE_SHARED_OBJECT_H_

#include <memory>

#include "nanobind/nanobind.h"

namespace shardfeed::python {

// Returns a reference to `object` that any thread may drop, with or without the GIL. The object
// itself is released by the next DropObjects: a library thread that waited for the GIL would block
// others.
std::shared_ptr<PyObject> ShareObject(nanobind::object object);

// Releases the objects whose last reference was dropped. Call with the GIL.
void DropObjects();

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_SHARED_OBJECT_H_
