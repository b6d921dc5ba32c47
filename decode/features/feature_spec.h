// Checks of feature specs, and facts about them.

#ifndef SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_
#define SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// The kind of list that a record must have for this feature; kNone if there is no such kind.
FeatureKind ListKind(const FeatureSpec& spec);

// Whether values of an int64 list fit a type, which is one that such a list can become.
bool Fits(DType dtype, int64_t value);

// Number of values in an element of `shape`. Only for a validated spec.
int64_t NumValues(const FeatureSpec& spec);

// "[3, 224, 224]"
std::string ShapeText(absl::Span<const int64_t> shape);

// Checks a spec. `in_feature_list`: whether it describes a feature list of a SequenceExample.
// InvalidArgument: the message names the feature, the defect and the remedy.
absl::Status Validate(const FeatureSpec& spec, bool in_feature_list);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FEATURE_SPEC_H_
