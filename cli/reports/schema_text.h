// The schema of a dataset in words, for tables.

#ifndef SHARDFEED_CLI_REPORTS_SCHEMA_TEXT_H_
#define SHARDFEED_CLI_REPORTS_SCHEMA_TEXT_H_

#include <cstdint>
#include <string>

#include "shard/schema/schema.h"

namespace shardfeed {

// Returns a number or a range: "1", "3 to 7".
std::string SpanText(uint64_t min, uint64_t max);

// Returns the number of values in a record: "scalar", "[3]", "[0 to 7]", "list".
std::string ShapeText(const FeatureSchema& feature);

// Returns how many records have the feature: "all", "3 of 10", "all, 2 of another kind".
std::string PresenceText(const FeatureSchema& feature, const Schema& schema);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_SCHEMA_TEXT_H_
