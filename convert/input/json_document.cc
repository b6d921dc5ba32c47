#include "convert/input/json_document.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/charconv.h"
#include "base/excerpt.h"
#include "convert/input/json_defect.h"
#include "convert/input/json_numbers.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

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

// Throws if memory ran out, which says nothing about the text: it must not count as broken.
simdjson::error_code OfText(simdjson::error_code error) {
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  return error;
}

// Grows the parser for a text of this size: to powers of two, since the parser itself would
// allocate again for every longer text.
simdjson::error_code Grow(simdjson::dom::parser& parser, size_t size) {
  if (parser.capacity() >= size) return simdjson::SUCCESS;
  return OfText(parser.allocate(std::max<size_t>(1 << 16, std::bit_ceil(size))));
}

// The numbers of the thread's last text that the parser did not take as they are, as views of it.
thread_local std::vector<std::string_view> replaced_numbers;

constexpr std::string_view kMinusZero = "-0";

// Such a number is a NaN in the parser's result, whose low bits are its index plus one here. The
// parser itself makes no NaN.
constexpr uint64_t kReplaced = 0x7ff8'0000'0000'0000;
constexpr uint64_t kIndexMask = 0x0000'ffff'ffff'ffff;

// Returns the text of the number if it was replaced, otherwise an empty one.
std::string_view ReplacedNumber(double number) {
  if (!std::isnan(number)) return {};
  const uint64_t index = std::bit_cast<uint64_t>(number) & kIndexMask;
  return index == 0 ? std::string_view() : replaced_numbers[index - 1];
}

// Calls `visit` with each double of the result, to be changed in place.
template <typename Visit>
void ForEachDouble(simdjson::dom::document& document, Visit visit) {
  constexpr uint64_t kValueMask = 0x00ff'ffff'ffff'ffff;
  uint64_t* const tape = document.tape.get();
  const uint64_t size = tape[0] & kValueMask;
  for (uint64_t i = 1; i < size; ++i) {
    const char type = static_cast<char>(tape[i] >> 56);
    if (type == 'd') visit(&tape[i + 1]);
    // Numbers take two words.
    if (type == 'd' || type == 'l' || type == 'u') ++i;
  }
}

// Parses `text` with a placeholder for each number that the parser would refuse or change.
simdjson::error_code ParseReplaced(std::string_view text, bool all, simdjson::dom::parser& parser,
                                   element* root) {
  thread_local std::string copy;
  // A placeholder that the text happens to have itself is noticed by its count.
  for (const std::string_view placeholder : {"1.2345678987654e-250", "9.8765432123456e-251"}) {
    replaced_numbers.clear();
    ReplaceNumbers(text, all, placeholder, &copy, &replaced_numbers);
    if (replaced_numbers.empty()) return simdjson::NUMBER_ERROR;
    const size_t size = copy.size();
    copy.append(kJsonPadding, '\0');
    if (const simdjson::error_code error = Grow(parser, size); error != simdjson::SUCCESS) {
      return error;
    }
    const simdjson::error_code error =
        OfText(parser.parse(copy.data(), size, /*realloc_if_needed=*/false).get(*root));
    if (error != simdjson::SUCCESS) return error;
    double value = 0;
    std::from_chars(placeholder.data(), placeholder.data() + placeholder.size(), value);
    uint64_t count = 0;
    ForEachDouble(parser.doc, [&](uint64_t* word) {
      count += *word == std::bit_cast<uint64_t>(value) ? 1 : 0;
    });
    if (count != replaced_numbers.size()) continue;
    uint64_t next = 0;
    ForEachDouble(parser.doc, [&](uint64_t* word) {
      if (*word != std::bit_cast<uint64_t>(value)) return;
      const std::string_view number = replaced_numbers[next++];
      *word = number == "NaN"         ? kReplaced
              : number == "Infinity"  ? std::bit_cast<uint64_t>(HUGE_VAL)
              : number == "-Infinity" ? std::bit_cast<uint64_t>(-HUGE_VAL)
                                      : kReplaced | next;
    });
    return simdjson::SUCCESS;
  }
  return simdjson::NUMBER_ERROR;
}

// Whether simdjson cannot write the element by itself.
bool HasReplaced(element value) {
  switch (value.type()) {
    case element_type::DOUBLE:
      return !std::isfinite(value.get_double().value_unsafe());
    case element_type::ARRAY: {
      const simdjson::dom::array list = value.get_array().value_unsafe();
      return std::any_of(list.begin(), list.end(), HasReplaced);
    }
    case element_type::OBJECT: {
      const simdjson::dom::object fields = value.get_object().value_unsafe();
      return std::any_of(fields.begin(), fields.end(),
                         [](const auto& field) { return HasReplaced(field.value); });
    }
    default:
      return false;
  }
}

void AppendJsonText(element value, std::string* out) {
  if (!HasReplaced(value)) {
    *out += simdjson::minify(value);
    return;
  }
  char separator = value.is_object() ? '{' : '[';
  if (value.is_array()) {
    const simdjson::dom::array list = value.get_array().value_unsafe();
    for (element one : list) {
      *out += std::exchange(separator, ',');
      AppendJsonText(one, out);
    }
    *out += ']';
  } else if (value.is_object()) {
    const simdjson::dom::object fields = value.get_object().value_unsafe();
    for (const simdjson::dom::key_value_pair field : fields) {
      *out += std::exchange(separator, ',');
      *out += nlohmann::json(field.key).dump() + ":";
      AppendJsonText(field.value, out);
    }
    *out += '}';
  } else {
    const double number = value.get_double().value_unsafe();
    const std::string_view replaced = ReplacedNumber(number);
    *out += !replaced.empty()    ? replaced
            : std::isnan(number) ? "NaN"
            : number > 0         ? "Infinity"
                                 : "-Infinity";
  }
}

}  // namespace

simdjson::error_code ParseJson(std::string_view text, element* root, JsonDigits digits) {
  thread_local simdjson::dom::parser parser;
  const bool own = digits == JsonDigits::kOwn || MayUnderflow(text);
  if (own) {
    const simdjson::error_code error = ParseReplaced(text, /*all=*/true, parser, root);
    if (error == simdjson::SUCCESS) return error;
  }
  if (const simdjson::error_code error = Grow(parser, text.size()); error != simdjson::SUCCESS) {
    return error;
  }
  const simdjson::error_code error =
      OfText(parser.parse(text.data(), text.size(), /*realloc_if_needed=*/false).get(*root));
  if (error == simdjson::SUCCESS || own) return error;
  return ParseReplaced(text, /*all=*/false, parser, root) == simdjson::SUCCESS ? simdjson::SUCCESS
                                                                               : error;
}

double JsonDouble(element number) {
  const double value = number.get_double().value_unsafe();
  const std::string_view text = ReplacedNumber(value);
  if (text.empty()) return value;
  double exact = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exact);
  // std::from_chars does not set the value; Abseil's, which is slower, returns infinity or zero.
  if (error == std::errc::result_out_of_range) absl::from_chars(text.data(), end, exact);
  return exact;
}

std::string_view JsonLargeInteger(element number) {
  const std::string_view text = ReplacedNumber(number.get_double().value_unsafe());
  const bool large = text.find_first_of(".eE") == text.npos && text != kMinusZero;
  return large ? text : std::string_view();
}

bool IsJsonMinusZero(element number) {
  return ReplacedNumber(number.get_double().value_unsafe()) == kMinusZero;
}

std::string JsonText(element value) {
  std::string text;
  AppendJsonText(value, &text);
  return text;
}

absl::StatusOr<simdjson::dom::object> ParseJsonObject(std::string_view text,
                                                      const std::string& file, uint64_t line,
                                                      std::string_view wanted, JsonDigits digits) {
  element root;
  const simdjson::error_code error = ParseJson(text, &root, digits);
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
