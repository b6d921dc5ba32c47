#include "shard/names/spark_names.h"

#include <cstddef>

#include "shard/names/names.h"

namespace shardfeed {
namespace {

// Minimum number of digits in the number of a part.
constexpr size_t kMinPartDigits = 5;

bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (dash ? c != '-' : !hex) return false;
  }
  return true;
}

}  // namespace

std::optional<SparkName> ParseSparkName(std::string_view name) {
  SparkName result;
  std::string_view rest = name;
  if (!rest.starts_with("part-")) return std::nullopt;
  rest.remove_prefix(5);
  if (rest.starts_with("r-") || rest.starts_with("m-")) rest.remove_prefix(2);
  const size_t digits = LeadingDigits(rest);
  const std::optional<uint64_t> part = ParseNumber(rest.substr(0, digits));
  if (digits < kMinPartDigits || !part) return std::nullopt;
  result.part = *part;
  rest.remove_prefix(digits);
  if (rest.starts_with('-') && IsUuid(rest.substr(1, 36))) {
    result.job = rest.substr(1, 36);
    rest.remove_prefix(37);
  }
  // Parses a number after `mark` that is followed by the end, a dot or a dash.
  const auto number = [&rest](std::string_view mark, uint64_t& value) {
    if (!rest.starts_with(mark)) return;
    const std::string_view after = rest.substr(mark.size());
    const size_t digits = LeadingDigits(after);
    const std::optional<uint64_t> parsed = ParseNumber(after.substr(0, digits));
    const bool ends = after.size() == digits || after[digits] == '.' || after[digits] == '-';
    if (!parsed || !ends) return;
    value = *parsed;
    rest = after.substr(digits);
  };
  number("_", result.bucket);
  const std::string_view before_file = rest;
  number("-c", result.file);
  // Spark writes ".c000" in partitioned output.
  if (rest == before_file) number(".c", result.file);
  if (!rest.empty() && rest[0] != '.') return std::nullopt;
  return result;
}

}  // namespace shardfeed
