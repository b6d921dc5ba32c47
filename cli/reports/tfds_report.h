// What TFDS declares about the features of a dataset, as `inspect` shows it.

#ifndef SHARDFEED_CLI_REPORTS_TFDS_REPORT_H_
#define SHARDFEED_CLI_REPORTS_TFDS_REPORT_H_

#include <string>

#include "nlohmann/json.hpp"
#include "shard/declarations/tfds_features.h"

namespace shardfeed {

// Prints one line for each feature, or for `only` unless it is empty.
void PrintTfdsFeatures(const TfdsFeatures& features, const std::string& only);

// Returns an object with a member for each feature.
nlohmann::ordered_json TfdsFeaturesToJson(const TfdsFeatures& features);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_TFDS_REPORT_H_
