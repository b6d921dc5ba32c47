// Formats tf.train.Examples as text, for people and for tools. A name that is not UTF-8 makes a
// record invalid, as for Protocol Buffers.

#ifndef SHARDFEED_TFRECORD_EXAMPLE_TEXT_H_
#define SHARDFEED_TFRECORD_EXAMPLE_TEXT_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

// Returns one line of JSON: {"NAME": [values], ...}, sorted by name. Bytes become a string if they
// are UTF-8, otherwise {"base64": "..."}. Floats have the fewest digits that yield the same
// float32; those that JSON lacks become "NaN", "Infinity" and "-Infinity". A SequenceExample
// becomes
// {"context": {...}, "feature_lists": {"NAME": [[values], ...]}}.
//
// DataLoss: not an Example.
absl::StatusOr<std::string> ExampleToJson(std::string_view record);

// Returns Protocol Buffers' text format, as protoc --decode prints it, but without fields that the
// messages do not define. DataLoss: not an Example.
absl::StatusOr<std::string> ExampleToTextProto(std::string_view record);

// Returns human-readable lines "  NAME  KIND  VALUES". Long lists and long values are truncated,
// and binary values are shown by their size and first bytes. `only` selects a single feature.
// DataLoss: not an Example.
absl::StatusOr<std::string> ExampleToSummary(std::string_view record, std::string_view only = "");

// Returns the values of each feature that has any, as in the summary, by name. DataLoss: not an
// Example.
absl::StatusOr<std::map<std::string, std::string>> ExampleToValues(std::string_view record);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_EXAMPLE_TEXT_H_
