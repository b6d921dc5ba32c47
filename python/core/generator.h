// Python generators as sources of a chain.

#ifndef SHARDFEED_PYTHON_CORE_GENERATOR_H_
#define SHARDFEED_PYTHON_CORE_GENERATOR_H_

#include <functional>

#include "nanobind/nanobind.h"
#include "pipeline/stages/sources.h"

namespace shardfeed::python {

// make() returns a function, each call of which returns columns for BatchFromPython, or None at the
// end. Its exceptions are raised by the iterator.
//
// A call that does not return (queue.get()) delays neither the end of the iterator nor that of the
// interpreter: its thread is abandoned, as daemon threads of Python are.
std::function<Generator()> MakePythonGenerator(const RowSpec& spec, nanobind::object make);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_GENERATOR_H_
