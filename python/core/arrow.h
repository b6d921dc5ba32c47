// Batches of Arrow, in and out, by Arrow's PyCapsule interface: no pyarrow is needed.

#ifndef SHARDFEED_PYTHON_CORE_ARROW_H_
#define SHARDFEED_PYTHON_CORE_ARROW_H_

#include <functional>

#include "decode/arrow/abi.h"
#include "nanobind/nanobind.h"

namespace shardfeed::python {

// Calls `take` for each record batch of an object that has __arrow_c_stream__ or
// __arrow_c_array__. Raises TypeError for other objects, ValueError for a stream that fails.
// `take` is called without the GIL and may not throw; false ends the visit.
void VisitArrow(nanobind::handle object,
                const std::function<bool(const ArrowSchema&, const ArrowArray&)>& take);

void BindArrow(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_ARROW_H_
