// tf.train.Examples as text, for people and for tools. By Protocol Buffers, unlike everything else
// here: not for a process that may hold another copy of it, such as a Python extension.

#ifndef SHARDFEED_TFRECORD_EXAMPLE_TEXT_H_
#define SHARDFEED_TFRECORD_EXAMPLE_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

// One line of JSON: {"NAME": [values], ...}, names sorted. Bytes are a string where they are UTF-8,
// otherwise {"base64": "..."}; floats in the fewest digits that give the same float32, those that
// JSON lacks as "NaN", "Infinity" and "-Infinity". A SequenceExample gives
// {"context": {...}, "feature_lists": {"NAME": [[values], ...]}}.
//
// DataLoss: not an Example.
absl::StatusOr<std::string> ExampleToJson(std::string_view record);

// Protocol Buffers' text format, as protoc --decode prints it. DataLoss: not an Example.
absl::StatusOr<std::string> ExampleToTextProto(std::string_view record);

// Some lines for a person, "  NAME  KIND  VALUES": long lists and long values are cut, bytes that
// are not text are told by their size and beginning. `only` restricts it to one feature.
absl::StatusOr<std::string> ExampleToSummary(std::string_view record, std::string_view only = "");

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_EXAMPLE_TEXT_H_
