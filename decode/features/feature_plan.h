// How one feature is parsed: what ExampleParser works out once from a FeatureSpec.

#ifndef SHARDFEED_DECODE_FEATURES_FEATURE_PLAN_H_
#define SHARDFEED_DECODE_FEATURES_FEATURE_PLAN_H_

#include <cstddef>
#include <string>

#include "decode/features/feature_values.h"
#include "shardfeed/schema.h"

namespace shardfeed {

struct FeaturePlan {
  Conversion conversion = Conversion::kBytes;
  FeatureKind kind = FeatureKind::kNone;
  bool is_list = false;      // whether it is a feature list
  bool whole_steps = false;  // each step is one element
  bool fixed = false;
  size_t values = 0;  // values per row (fixed) or per element
  size_t bytes = 0;   // bytes per row or element
  // The start of the map entry of a small fixed feature as nearly all writers encode it;
  // entry_values_bytes of values follow. Each value of an int64 feature then takes one byte. Empty
  // for other features.
  std::string entry_header;
  size_t entry_values_bytes = 0;
  FeatureSpec spec;
  // The row or element for records that have none; empty if the feature is required.
  std::string fill;
};

// `spec` is valid (Validate). `is_list`: it is of a feature list.
FeaturePlan MakePlan(FeatureSpec spec, bool is_list);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FEATURE_PLAN_H_
