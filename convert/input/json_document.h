// One JSON text, parsed or explained.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_
#define SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simdjson.h"

namespace shardfeed {

// So many bytes after a text must be readable, whatever they are.
inline constexpr size_t kJsonPadding = simdjson::SIMDJSON_PADDING;

// Parses `text`, which is UTF-8 and followed by kJsonPadding bytes. The result lives in the
// thread's parser, until its next call.
simdjson::error_code ParseJson(std::string_view text, simdjson::dom::element* root);

// The same for a text that must be an object. DataLoss, as it is told to the user: `place` is
// "FILE" or "FILE:LINE", where the text starts; it is followed by the column, or line and column,
// at which the JSON is not valid. `wanted` ends "an array where WANTED", as in "each line must be a
// JSON object".
absl::StatusOr<simdjson::dom::object> ParseJsonObject(std::string_view text,
                                                      const std::string& file, uint64_t line,
                                                      std::string_view wanted);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_DOCUMENT_H_
