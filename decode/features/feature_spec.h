// Checks of the features that are to be read (FeatureSpec), and facts about them.

#ifndef SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_
#define SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// The kind of list that the feature must have in the record.
FeatureKind ListKind(const FeatureSpec& spec);

// Number of values in an element of `shape`. Only for a validated spec.
int64_t NumValues(const FeatureSpec& spec);

// "[3, 224, 224]"
std::string ShapeText(absl::Span<const int64_t> shape);

// InvalidArgument: names the feature, what is wrong with it, and what can be done.
// `in_feature_list`: whether it is asked for of a SequenceExample's feature lists.
absl::Status Validate(const FeatureSpec& spec, bool in_feature_list);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_
