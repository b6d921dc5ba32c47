// JSON: one record per object, one feature per key.
//
// JSON Lines has an object on each line that is not blank; a JSON array has them between brackets,
// laid out in any way. Objects are those of RFC 8259, in UTF-8; a byte order mark at the front of a
// file is skipped. Keys and values become features so:
//
//   string                bytes
//   true, false           int64, 1 and 0
//   integer               int64; an error outside its range
//   other number          float, that is float32; an error outside its range
//   null                  a missing value: the record lacks the feature
//   object                its keys, named "outer.inner"
//   list of the above     a list; without null, lists or objects in it. [] is an empty list
//
// A key has one kind over all files: where integers and other numbers meet, float; text and
// numbers cannot meet. A single value is the same as a list of one.

#ifndef SHARDFEED_CONVERT_SOURCES_JSON_H_
#define SHARDFEED_CONVERT_SOURCES_JSON_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/feature_choice.h"
#include "convert/input/text_reader.h"
#include "convert/items/source.h"

namespace shardfeed {

enum class JsonLayout { kLines, kArray };

struct JsonOptions {
  // By dotted names, see JsonSchema.
  FeatureChoice choice;
  // The dotted key whose value an item's key is, as JSON writes it and empty where it is missing;
  // without one, the whole text of the object.
  std::string key;
  uint64_t max_object_bytes = kDefaultMaxLineBytes;
};

// The objects of the files one after another. An item's bytes are an object's text. Each pass reads
// the files front to back with a buffer of 1 MiB that grows for longer objects. The keys are held
// in memory; more than a hundred thousand different ones are an error.
//
// With SkipDefects, texts that are no JSON object or do not go with the objects before are left
// out; of an array that breaks off, what was before.
//
// InvalidArgument: no files, or a chosen column that no record has. ResourceExhausted: an object
// above the limit. Scan and ForEach tell the rest with "FILE:LINE: ...", or
// "FILE:LINE:COLUMN: ..." where the JSON is not valid; columns count bytes from 1.
// FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeJsonSource(std::vector<std::string> paths,
                                                       JsonLayout layout, JsonOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_JSON_H_
