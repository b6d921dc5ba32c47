// Splits a JSON array of objects without holding more than one of them in memory.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_ARRAY_H_
#define SHARDFEED_CONVERT_INPUT_JSON_ARRAY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "convert/input/text_reader.h"

namespace shardfeed {

// Consumes blanks and returns the next character, at which the unread text then starts; NUL at the
// end of the file and after an error of the reader.
char SkipJsonBlanks(TextReader& reader);

// Returns the offset after the string that opens at `at`, or npos if it does not close in `text`.
size_t SkipJsonString(std::string_view text, size_t at);

// Reads "[ {...}, {...} ]" from a file. Examines only brackets, commas and strings: the contents of
// objects are left to the parser. Not thread-safe.
class JsonArray {
 public:
  // `reader` must be at the beginning of the file and outlive this object. `path` is for messages.
  // With a `key`, the array is the value of that key (see JsonObject), at which `reader` must be,
  // and other text may follow it.
  JsonArray(TextReader* reader, std::string path, std::string key = "")
      : reader_(reader), path_(std::move(path)), key_(std::move(key)) {}

  struct Element {
    std::string_view text;  // valid until the next call; TextReader::kPadding bytes follow
    uint64_t line = 0;      // 1-based line where the element starts
  };
  // Returns false at the end of the array and after an error; see status().
  bool Next(Element* element);

  // DataLoss with "FILE:LINE: ...": not an array, something other than a comma between elements or
  // other than blanks after the end, or a file that ends inside the array. Others: those of the
  // reader.
  const absl::Status& status() const { return status_; }

 private:
  char SkipBlanks();
  bool NotArray(char first);
  bool Fail(std::string_view what);

  TextReader* const reader_;
  const std::string path_;
  const std::string key_;
  bool started_ = false;
  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_ARRAY_H_
