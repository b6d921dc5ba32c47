// Explains what is wrong with a line that the fast JSON parser rejected.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_DEFECT_H_
#define SHARDFEED_CONVERT_INPUT_JSON_DEFECT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shardfeed {

struct JsonDefect {
  // 1-based byte of the line where the parser gave up; 0 if the JSON is valid but contains
  // something that the fast parser does not support (very deep nesting).
  size_t column = 0;
  std::string what;
};

// Parses `line` again with a second, slower parser that reports positions. `refusal` is the fast
// parser's message, used if the second parser accepts the line.
JsonDefect FindJsonDefect(std::string_view line, std::string_view refusal);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_DEFECT_H_
