// Elements as text, to compare them.

#ifndef SHARDFEED_TESTS_PIPELINE_ELEMENT_TEXT_H_
#define SHARDFEED_TESTS_PIPELINE_ELEMENT_TEXT_H_

#include <string>

#include "nlohmann/json.hpp"
#include "shardfeed/batch.h"

namespace shardfeed::testing {

// {"name": value}: scalars unchanged, rows and shapes as nested arrays; bytes as strings.
nlohmann::json ElementJson(const Batch& batch);

inline std::string ElementText(const Batch& batch) { return ElementJson(batch).dump(); }

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_PIPELINE_ELEMENT_TEXT_H_
