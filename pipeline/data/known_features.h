// Finds the features of a dataset, so that users need not name them.

#ifndef SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
#define SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decode/features/feature_spec.h"
#include "reader/shards/shard_table.h"
#include "shard/declarations/tfds_features.h"
#include "shard/schema/schema.h"
#include "shard/spec/spec.h"
#include "shardfeed/batch.h"

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

// A column that was parsed as records have it, and becomes what TFDS declares.
struct TfdsColumn {
  ColumnSpec output;  // has the same name
  // The type that TFDS declares. `output` can hold all of its values, except for large uint64.
  std::string dtype;
  TfdsEncoding encoding = TfdsEncoding::kNone;
  size_t array_values = 0;  // values of one encoded array; 0: any number
};

struct KnownFeatures {
  std::vector<FeatureSpec> features;
  std::vector<FeatureSpec> feature_lists;
  std::vector<TfdsColumn> tfds_columns;
  // Where the features are from, if records may have others: a sentence.
  std::string origin;
};
// All features in the order of their names: as fixed ones if all records have the same number of
// values, otherwise as ragged ones. Types and shapes are those that the writer noted, as far as
// records can be parsed so, or those stored. Features without any value are ragged ones of bytes.
//
// InvalidArgument: a feature is of several kinds.
absl::StatusOr<KnownFeatures> FeaturesOf(const Schema& schema);

// The features that TFDS declares. Those whose length is not known are ragged; their elements are
// rows of the first dimension, or single values if that is not the only unknown one. Types without
// a counterpart become one that has their values: bool becomes uint8, uint32 and uint64 int64.
//
// InvalidArgument: a feature has a problem, which the message names.
absl::StatusOr<KnownFeatures> FeaturesOf(const TfdsFeatures& tfds);

// The features of a dataset: by its manifest, by TFDS's features.json, or by its records, as
// FindSchema finds them. Errors: those of FindSchema, FindTfdsFeatures and FeaturesOf.
absl::StatusOr<KnownFeatures> FindFeatures(const ShardSet& set, const ShardTable* table = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_KNOWN_FEATURES_H_
