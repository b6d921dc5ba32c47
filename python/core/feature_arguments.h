// Features and padding that Python names, as the steps of a chain take them. Call with the GIL.

#ifndef SHARDFEED_PYTHON_CORE_FEATURE_ARGUMENTS_H_
#define SHARDFEED_PYTHON_CORE_FEATURE_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nanobind/nanobind.h"
#include "pipeline/dataset.h"
#include "shardfeed/schema.h"

namespace shardfeed::python {

// Converts a sequence of (name, dtype, shape, ragged, default or None, raw).
std::vector<FeatureSpec> FeaturesFromPython(nanobind::sequence features);

// Converts {name: (length, an int, a float or bytes)}.
std::map<std::string, Padding> PaddingOf(
    const std::map<std::string, std::pair<int64_t, nanobind::object>>& padding);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_FEATURE_ARGUMENTS_H_
