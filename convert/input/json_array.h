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

// Reads "[ {...}, {...} ]" from a file. Examines only brackets, commas and strings: the contents of
// objects are left to the parser. Not thread safe.
class JsonArray {
 public:
  // `reader` must be at the beginning of the file and outlive this object. `path` is for messages.
  JsonArray(TextReader* reader, std::string path) : reader_(reader), path_(std::move(path)) {}

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
  bool Fail(std::string_view what);

  TextReader* const reader_;
  const std::string path_;
  bool started_ = false;
  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_ARRAY_H_
