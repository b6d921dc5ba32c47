// Parses one JSON text, or explains why it is invalid.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_
#define SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simdjson.h"

namespace shardfeed {

// This many bytes after a text must be readable; their values do not matter.
inline constexpr size_t kJsonPadding = simdjson::SIMDJSON_PADDING;

// Parses `text`, which must be UTF-8 and followed by kJsonPadding bytes. The result is memory of
// the calling thread's parser, valid until the thread's next call.
simdjson::error_code ParseJson(std::string_view text, simdjson::dom::element* root);

// The same for a text that must be an object. DataLoss, with a message for the user that starts
// with "FILE:LINE" and, if the JSON is invalid, the column: `file` and `line` say where the text
// starts. `wanted` completes "got an array, but WANTED", such as "each line must be a JSON object".
absl::StatusOr<simdjson::dom::object> ParseJsonObject(std::string_view text,
                                                      const std::string& file, uint64_t line,
                                                      std::string_view wanted);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_
