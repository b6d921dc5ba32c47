// Checks of the names of features.

#ifndef SHARDFEED_SHARD_DECLARATIONS_FEATURE_NAMES_H_
#define SHARDFEED_SHARD_DECLARATIONS_FEATURE_NAMES_H_

#include "absl/status/status.h"
#include "shard/schema/schema.h"
#include "shard/spec/spec.h"

namespace shardfeed {

// DataLoss: a feature of the records of `dataset` has a name that is not UTF-8, which a manifest
// cannot hold.
absl::Status CheckFeatureNames(const OutputSpec& dataset, const Schema& schema);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DECLARATIONS_FEATURE_NAMES_H_
