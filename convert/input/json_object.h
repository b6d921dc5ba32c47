// Walks the members of a JSON object without holding their values in memory.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_OBJECT_H_
#define SHARDFEED_CONVERT_INPUT_JSON_OBJECT_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "convert/input/text_reader.h"

namespace shardfeed {

// Reads "{ "KEY": VALUE, ... }" from a file. Values that are passed over are examined only for
// brackets and strings. Not thread-safe.
class JsonObject {
 public:
  // `reader` must be at the beginning of the file and outlive this object. `path` is for messages.
  JsonObject(TextReader* reader, std::string path) : reader_(reader), path_(std::move(path)) {}

  // Moves to the value of the next member, which the caller must read (JsonArray with a key) or
  // pass to SkipValue. Returns false at the end of the object and after an error; see status().
  bool Next();
  // The key as written, without its quotes: escapes are not resolved.
  const std::string& key() const { return key_; }
  // Passes over the value. Returns false after an error.
  bool SkipValue();

  // DataLoss with "FILE:LINE: ...": not an object, something other than a comma between members or
  // other than blanks after the end, or a file that ends inside the object. Others: those of the
  // reader.
  const absl::Status& status() const { return status_; }

 private:
  char SkipBlanks();
  bool Fail(std::string_view what);
  bool ReadKey(char next);

  TextReader* const reader_;
  const std::string path_;
  std::string key_;
  bool started_ = false;
  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_OBJECT_H_
