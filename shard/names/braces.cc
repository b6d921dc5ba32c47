#include "shard/names/braces.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "net/open.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

constexpr size_t kMaxNames = kMaxShards;

bool IsPadded(std::string_view number) { return number.size() > 1 && number[0] == '0'; }

absl::Status TooMany(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("{}: stands for more than {} names", text, kMaxNames));
}

bool IsLetter(std::string_view text) {
  return text.size() == 1 &&
         ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
}

// The texts of the braces around FIRST..LAST or FIRST..LAST..STEP; empty if `inside` is not of this
// form.
absl::StatusOr<std::vector<std::string>> TextsOfRange(std::string_view inside) {
  std::vector<std::string> texts;
  const size_t dots = inside.find("..");
  if (dots == inside.npos) return texts;
  const std::string_view from = inside.substr(0, dots);
  std::string_view to = inside.substr(dots + 2);
  uint64_t step = 1;
  if (const size_t more = to.find(".."); more != to.npos) {
    std::string_view text = to.substr(more + 2);
    if (text.starts_with('-')) text.remove_prefix(1);  // the order of the ends tells
    const std::optional<uint64_t> given = ParseNumber(text);
    if (!given) return texts;
    step = std::max<uint64_t>(1, *given);
    to = to.substr(0, more);
  }
  const bool letters = IsLetter(from) && IsLetter(to);
  const std::optional<uint64_t> first = letters ? from[0] : ParseNumber(from);
  const std::optional<uint64_t> last = letters ? to[0] : ParseNumber(to);
  if (!first || !last) return texts;
  const uint64_t steps = (std::max(*first, *last) - std::min(*first, *last)) / step;
  if (steps >= kMaxNames) return TooMany(fmt::format("{{{}}}", inside));
  const size_t width = IsPadded(from) || IsPadded(to) ? std::max(from.size(), to.size()) : 0;
  for (uint64_t i = 0; i <= steps; ++i) {
    const uint64_t number = *first < *last ? *first + i * step : *first - i * step;
    texts.push_back(letters ? std::string(1, static_cast<char>(number))
                            : fmt::format("{:0{}}", number, width));
  }
  return texts;
}

// What stands between the commas in `inside` that are in no braces there.
std::vector<std::string_view> SplitAtCommas(std::string_view inside) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t at = 0; at < inside.size(); ++at) {
    if (inside[at] == '{') ++depth;
    if (inside[at] == '}') --depth;
    if (inside[at] != ',' || depth > 0) continue;
    parts.push_back(inside.substr(begin, at - begin));
    begin = at + 1;
  }
  parts.push_back(inside.substr(begin));
  return parts;
}

// The offset of the brace that closes the one at `open`; npos: none does.
size_t ClosingBrace(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at;
  }
  return text.npos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view text) {
  // Pairs within others take calls of their own.
  constexpr int64_t kMostBraces = 100;
  if (std::count(text.begin(), text.end(), '{') > kMostBraces) {
    return absl::InvalidArgumentError(
        fmt::format("{}...: more than {} pairs of braces", text.substr(0, 40), kMostBraces));
  }
  std::vector<std::string> names = {""};
  const auto append = [&names](std::string_view literal) {
    for (std::string& name : names) name += literal;
  };
  const std::string_view whole = text;
  while (!text.empty()) {
    const size_t open = std::min(text.find('{'), text.size());
    append(text.substr(0, open));
    text.remove_prefix(open);
    if (text.empty()) break;
    const size_t close = ClosingBrace(text, 0);
    const std::string_view inside = close == text.npos ? "" : text.substr(1, close - 1);
    const std::vector<std::string_view> parts = SplitAtCommas(inside);
    absl::StatusOr<std::vector<std::string>> texts = TextsOfRange(inside);
    for (size_t i = 0; texts.ok() && parts.size() > 1 && i < parts.size(); ++i) {
      if (i == 0) texts->clear();
      const absl::StatusOr<std::vector<std::string>> some = ExpandBraces(parts[i]);
      if (!some.ok()) {
        texts = some.status();
      } else {
        texts->insert(texts->end(), some->begin(), some->end());
      }
    }
    if (!texts.ok()) return texts.status();
    if (texts->empty()) {  // an ordinary character
      append("{");
      text.remove_prefix(1);
      continue;
    }
    if (names.size() * texts->size() > kMaxNames) return TooMany(whole);
    std::vector<std::string> next;
    next.reserve(names.size() * texts->size());
    for (const std::string& name : names) {
      for (const std::string& one : *texts) next.push_back(name + one);
    }
    names = std::move(next);
    text.remove_prefix(close + 1);
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> NamesInBraces(const std::string& name) {
  struct stat info;
  if (name.find('{') == name.npos || (!IsRemote(name) && ::stat(name.c_str(), &info) == 0)) {
    return std::vector<std::string>();
  }
  absl::StatusOr<std::vector<std::string>> names = ExpandBraces(name);
  if (names.ok() && names->size() == 1 && names->front() == name) names->clear();
  return names;
}

}  // namespace shardfeed
