// JSON: one record per object, one feature per key.
//
// JSON Lines has an object on each line that is not blank; a JSON array has them between brackets,
// with any layout. Objects follow RFC 8259, in UTF-8; a byte order mark at the start of a file is
// skipped. NaN, Infinity and -Infinity are numbers, too. Keys and values become features as
// follows:
//
//   string                bytes; int64 if all of the key's are dates and JsonOptions::dates says so
//   true, false           int64, 1 and 0
//   integer               int64; an error outside the range of int64
//   other number          float32; an error outside the range of float32
//   null                  a missing value: the record lacks the feature
//   object                its keys, named "outer.inner"
//   list                  a list, which must not contain null; may be empty
//   list of lists         the values of all lists, and NAME_lengths, int64, the lengths of the
//                         innermost lists; NAME_lengths_lengths those of the lists around them...
//   list of objects       for each key of the objects a list of lists, one for each object: the
//                         values, named "outer.inner", and outer.inner_lengths, 0 without a value
//
// A key has one kind in all files: integers and other numbers together become float; text and
// numbers together are an error. A single value is the same as a list of one.

#ifndef SHARDFEED_CONVERT_SOURCES_JSON_H_
#define SHARDFEED_CONVERT_SOURCES_JSON_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/features/dates.h"
#include "convert/features/feature_choice.h"
#include "convert/input/text_reader.h"
#include "convert/items/source.h"

namespace shardfeed {

enum class JsonLayout { kLines, kArray };

struct JsonOptions {
  // Keys, by dotted names: see JsonSchema.
  FeatureChoice choice;
  // The dotted key whose value is an item's key, as JSON text, and empty if it is missing. Without
  // it, the whole text of the object is the key.
  std::string key;
  // The dotted key whose text names each object's split; empty: there is none.
  std::string split_key;
  uint64_t max_object_bytes = kDefaultMaxLineBytes;
  // What a key becomes of which all values are dates: int64, unless it is kText.
  DatesAs dates = DatesAs::kText;
};

// Delivers the objects of the files in order. An item's bytes are an object's text. Each pass reads
// the files sequentially with a buffer of 1 MiB that grows for longer objects. The keys are held in
// memory; more than a hundred thousand different keys are an error.
//
// With SkipDefects, texts that are not a JSON object or contradict earlier objects are left out; of
// a truncated array, the elements before the end are kept.
//
// InvalidArgument: no files, or a chosen column that no record has. Scan and ForEach report errors
// as "FILE:LINE: ...", or as "FILE:LINE:COLUMN: ..." if the JSON is invalid; columns count bytes
// from 1. FailedPrecondition: a file has changed since Scan.
absl::StatusOr<std::unique_ptr<Source>> MakeJsonSource(std::vector<std::string> paths,
                                                       JsonLayout layout, JsonOptions options = {});

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_JSON_H_
