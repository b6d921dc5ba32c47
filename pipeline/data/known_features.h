// Which features a dataset has, so that they need not be named.

#ifndef SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
#define SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "decode/features/feature_spec.h"
#include "shard/schema.h"
#include "shard/spec.h"

namespace shardfeed {

// The schema of the dataset's manifest; without one, what its first thousand records say.
// InvalidArgument: they are not Examples.
absl::StatusOr<Schema> FindSchema(const ShardSet& set);

struct KnownFeatures {
  std::vector<FeatureSpec> features;
  std::vector<FeatureSpec> feature_lists;
};
// All features, in the order of their names: those that all records have with the same number of
// values as fixed ones, others as ragged ones. Types as they are stored. Features of several kinds
// are left out.
KnownFeatures FeaturesOf(const Schema& schema);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
