// Finds the features of a dataset, so that users need not name them.

#ifndef SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
#define SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "decode/features/feature_spec.h"
#include "shard/schema.h"
#include "shard/spec.h"

namespace shardfeed {

// The schema in the manifest of the dataset or, without a manifest, that of its first thousand
// records. InvalidArgument: they are not Examples.
absl::StatusOr<Schema> FindSchema(const ShardSet& set);

struct KnownFeatures {
  std::vector<FeatureSpec> features;
  std::vector<FeatureSpec> feature_lists;
};
// All features in the order of their names: as fixed ones if all records have the same number of
// values, otherwise as ragged ones. Types are those stored. Features of several kinds are omitted.
KnownFeatures FeaturesOf(const Schema& schema);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
