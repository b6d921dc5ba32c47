// Parses one JSON text, or explains why it is invalid.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_
#define SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simdjson.h"

namespace shardfeed {

// This many bytes after a text must be readable; their values do not matter.
inline constexpr size_t kJsonPadding = simdjson::SIMDJSON_PADDING;

enum class JsonDigits {
  kOfDoubles,  // the digits that a double can hold
  kOwn,        // all digits of the text, which takes longer: see JsonText
};

// Parses `text`, which must be UTF-8 and followed by kJsonPadding bytes. The result is memory of
// the calling thread's parser, valid until the thread's next call, as long as `text` is.
//
// Beyond RFC 8259, NaN, Infinity and -Infinity are doubles, as Python's json and pandas write them,
// and integers of more than 64 bits are, too: see JsonDouble. So are numbers too close to 0 for a
// double, whose text JsonText has, and with JsonDigits::kOwn the integer -0.
simdjson::error_code ParseJson(std::string_view text, simdjson::dom::element* root,
                               JsonDigits digits = JsonDigits::kOfDoubles);

// The value of an element that has the type DOUBLE in the thread's last result.
double JsonDouble(simdjson::dom::element number);
// The digits of such an element that is an integer of more than 64 bits; otherwise empty.
std::string_view JsonLargeInteger(simdjson::dom::element number);
// Whether such an element is the integer -0, which has its sign with JsonDigits::kOwn.
bool IsJsonMinusZero(simdjson::dom::element number);
// The element as JSON without blanks. With JsonDigits::kOwn, numbers have all digits of the text.
std::string JsonText(simdjson::dom::element value);

// The same for a text that must be an object. DataLoss, with a message for the user that starts
// with "FILE:LINE" and, if the JSON is invalid, the column: `file` and `line` say where the text
// starts. `wanted` completes "got an array, but WANTED", such as "each line must be a JSON object".
absl::StatusOr<simdjson::dom::object> ParseJsonObject(std::string_view text,
                                                      const std::string& file, uint64_t line,
                                                      std::string_view wanted,
                                                      JsonDigits digits = JsonDigits::kOfDoubles);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_
