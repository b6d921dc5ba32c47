// Generators written in Python as sources of a chain.

#ifndef SHARDFEED_PYTHON_CORE_GENERATOR_H_
#define SHARDFEED_PYTHON_CORE_GENERATOR_H_

#include <functional>

#include "nanobind/nanobind.h"
#include "pipeline/stages/sources.h"

namespace shardfeed::python {

// make() gives a function, each call of which gives columns as BatchFromPython takes them, or None
// at the end. What it raises comes out of the iterator.
//
// A call that does not return (queue.get()) holds up neither the iterator's end nor the
// interpreter's: its thread is left behind, as a daemon thread of Python's is.
std::function<Generator()> MakePythonGenerator(const RowSpec& spec, nanobind::object make);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_GENERATOR_H_
