// Finds the features of a dataset, so that users need not name them.

#ifndef SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
#define SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "decode/features/feature_spec.h"
#include "reader/shard_table.h"
#include "shard/schema.h"
#include "shard/spec.h"

namespace shardfeed {

struct FoundSchema {
  Schema schema;
  // Whether it is that of some of the records, so that others may have what it does not tell.
  bool sampled = false;
};
// The schema in the manifest of the dataset. Without a manifest, that of all records, or of those
// of a large dataset that are at the beginnings of shards and, with `table`, whose indexes tell
// where, in their middles and at their ends. It depends on the shards and `table` alone.
//
// InvalidArgument: a record is not an Example.
absl::StatusOr<FoundSchema> FindSchema(const ShardSet& set, const ShardTable* table = nullptr);

struct KnownFeatures {
  std::vector<FeatureSpec> features;
  std::vector<FeatureSpec> feature_lists;
};
// All features in the order of their names: as fixed ones if all records have the same number of
// values, otherwise as ragged ones. Types and shapes are those that the writer noted, as far as
// records can be parsed so, or those stored. Features without any value are ragged ones of bytes.
//
// InvalidArgument: a feature is of several kinds.
absl::StatusOr<KnownFeatures> FeaturesOf(const Schema& schema);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
