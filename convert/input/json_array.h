// Takes a JSON array of objects apart, without holding more than one of them.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_ARRAY_H_
#define SHARDFEED_CONVERT_INPUT_JSON_ARRAY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "convert/input/text_reader.h"

namespace shardfeed {

// Reads "[ {...}, {...} ]" from a file. Only brackets, commas and strings are looked at: what
// stands inside an object is for the parser. Not thread safe.
class JsonArray {
 public:
  // `reader` stands at the file's beginning and must outlive this. `path` is for messages.
  JsonArray(TextReader* reader, std::string path) : reader_(reader), path_(std::move(path)) {}

  struct Element {
    std::string_view text;  // lives until the next call; TextReader::kPadding bytes follow
    uint64_t line = 0;      // 1-based, where it starts
  };
  // False at the array's end and after a failure; status() tells which.
  bool Next(Element* element);

  // DataLoss with "FILE:LINE: ...": not an array, something other than a comma between two
  // elements or than blanks after the end, or the file ends before the array does. Others: those of
  // the reader.
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
