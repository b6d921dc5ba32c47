#include "convert/input/json_document.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "convert/input/excerpt.h"
#include "convert/input/json_defect.h"
#include "fmt/format.h"

namespace shardfeed {

using simdjson::dom::element;
using simdjson::dom::element_type;

namespace {

std::string_view TypeText(element_type type) {
  switch (type) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
  }
  return "";
}

}  // namespace

simdjson::error_code ParseJson(std::string_view text, element* root) {
  thread_local simdjson::dom::parser parser;
  if (parser.capacity() < text.size()) {
    // Grow to powers of two: the parser itself would allocate again for every longer text.
    const simdjson::error_code error =
        parser.allocate(std::max<size_t>(1 << 16, std::bit_ceil(text.size())));
    if (error != simdjson::SUCCESS) return error;
  }
  return parser.parse(text.data(), text.size(), /*realloc_if_needed=*/false).get(*root);
}

absl::StatusOr<simdjson::dom::object> ParseJsonObject(std::string_view text,
                                                      const std::string& file, uint64_t line,
                                                      std::string_view wanted) {
  element root;
  const simdjson::error_code error = ParseJson(text, &root);
  if (error != simdjson::SUCCESS) {
    const JsonDefect defect = FindJsonDefect(text, simdjson::error_message(error));
    if (defect.column == 0) {
      return absl::DataLossError(fmt::format("{}:{}: {}", file, line, defect.what));
    }
    const std::string_view before = text.substr(0, std::min(defect.column - 1, text.size()));
    const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return absl::DataLossError(fmt::format("{}:{}:{}: invalid JSON: {}", file,
                                           line + std::count(before.begin(), before.end(), '\n'),
                                           defect.column - line_start, defect.what));
  }
  if (root.type() != element_type::OBJECT) {
    return absl::DataLossError(fmt::format("{}:{}: got {}, but {}: {}", file, line,
                                           TypeText(root.type()), wanted, Excerpt(text)));
  }
  return root.get_object().value_unsafe();
}

}  // namespace shardfeed
